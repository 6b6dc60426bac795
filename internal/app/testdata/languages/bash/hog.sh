x=$(printf "%1000000s" "")
while :; do x=$x$x; done
