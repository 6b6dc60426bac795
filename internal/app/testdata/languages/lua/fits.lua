local all = {}
for i = 0, 159 do all[i] = string.rep(string.char(i), 2 ^ 20) end
print(all[7]:byte(8) == 7 and "hello" or "lost")
