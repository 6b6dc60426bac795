my @all;
while (1) { push @all, "a" x 1_000_000; }
