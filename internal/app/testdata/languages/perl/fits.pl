my @all = map { chr($_) x (1 << 20) } 0 .. 159;
print ord(substr($all[7], 7, 1)) == 7 ? "hello\n" : "lost\n";
