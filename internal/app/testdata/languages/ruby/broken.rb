puts("hello"
