all = []
loop { all << "a" * 1_000_000 }
