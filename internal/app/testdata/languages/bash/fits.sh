x=$(printf "%20000000s" "")
[ ${#x} = 20000000 ] && echo hello
