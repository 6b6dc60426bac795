class Cart:
    def __getattr__(self, name):
        while True:
            pass
