local all = {}
while true do all[#all + 1] = string.rep("a", 1000000) .. #all end
