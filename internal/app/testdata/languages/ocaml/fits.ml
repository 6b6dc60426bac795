let () =
  let all = Array.init 160 (fun i -> Bytes.make 1048576 (Char.chr i)) in
  print_endline (if Bytes.get all.(7) 7 = Char.chr 7 then "hello" else "lost")
