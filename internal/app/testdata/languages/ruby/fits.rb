all = (0...160).map { |i| i.chr * (1 << 20) }
puts all[7][7].ord == 7 ? "hello" : "lost"
