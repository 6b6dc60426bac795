let () =
  let all = ref [] in
  while true do all := Bytes.make 1000000 'a' :: !all done
