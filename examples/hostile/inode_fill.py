# Makes empty files without end.
i = 0
while True:
    open("/tmp/f%d" % i, "w").close()
    i += 1
