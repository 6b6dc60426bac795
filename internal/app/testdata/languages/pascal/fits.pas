var
  all: array[0..159] of pbyte;
  i: integer;
begin
  for i := 0 to 159 do
  begin
    getmem(all[i], 1048576);
    fillchar(all[i]^, 1048576, i);
  end;
  if all[7][7] = 7 then writeln('hello') else writeln('lost');
end.
