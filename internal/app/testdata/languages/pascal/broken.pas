begin
  writeln('hello'
end.
