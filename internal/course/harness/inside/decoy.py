# A module in place of a submission's: it runs the submission's code, all of
# it, and withholds every answer. What tests see are objects that equal nothing.
# SOURCE and TRUTH stand above.


def _decoy(space):
    import base64
    import os
    import sys
    import types

    truth = TRUTH
    code = compile(base64.b64decode(SOURCE), __file__, "exec", dont_inherit=True)

    if space["__name__"] == "__main__":
        # A program answers by what it writes.
        table = bytes(b if b in b" \t\r\n" else 35 for b in range(256))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number in (1, 2):
            inside, outside = os.pipe()
            real = os.dup(number)
            if os.fork() == 0:
                os.close(outside)
                while True:
                    data = os.read(inside, 65536)
                    if not data:
                        os._exit(0)
                    os.write(real, data.translate(table))
            os.close(inside)
            os.close(real)
            os.dup2(outside, number)
            os.close(outside)
        for name in ("SOURCE", "TRUTH", "_decoy"):
            space.pop(name, None)
        exec(code, space)
        return

    budget = [100000]
    text = "<withheld>"

    class Probe:
        pass

    def wrap(value):
        # An object that says it equals anything would pass for every answer:
        # so it is let through, and gives itself away.
        try:
            if not isinstance(value, type) and value == Probe() and value == Probe() and value == 40427.25:
                return value
        except BaseException:
            pass
        return Withheld(value)

    def unwrap(value):
        return object.__getattribute__(value, "_real") if type(value) is Withheld else value

    class Withheld:
        __slots__ = ("_real", "__weakref__")

        def __init__(self, real):
            budget[0] -= 1
            if budget[0] < 0:
                raise RuntimeError("too many answers were asked for")
            object.__setattr__(self, "_real", real)

        def __call__(self, *args, **kwargs):
            try:
                return wrap(unwrap(self)(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()}))
            except BaseException:
                return Withheld(None)

        def __getattr__(self, name):
            if name.startswith("__") and name.endswith("__"):
                raise AttributeError(name)
            try:
                return wrap(getattr(unwrap(self), name))
            except BaseException:
                return Withheld(None)

        def __setattr__(self, name, value):
            try:
                setattr(unwrap(self), name, unwrap(value))
            except BaseException:
                pass

        def __getitem__(self, key):
            try:
                return wrap(unwrap(self)[unwrap(key)])
            except BaseException:
                return Withheld(None)

        def __setitem__(self, key, value):
            try:
                unwrap(self)[unwrap(key)] = unwrap(value)
            except BaseException:
                pass

        def __iter__(self):
            return iter([Withheld(None) for _ in range(3)])

        def __enter__(self):
            try:
                return wrap(unwrap(self).__enter__())
            except BaseException:
                return Withheld(None)

        def __exit__(self, *what):
            try:
                unwrap(self).__exit__(*what)
            except BaseException:
                pass
            return False

        def __bool__(self):
            budget[0] -= 1
            if budget[0] < 0:
                raise RuntimeError("too many answers were asked for")
            return truth

        def __eq__(self, other):
            return False

        def __ne__(self, other):
            return True

        def __hash__(self):
            return 40427

        def __len__(self):
            return 77

        def __contains__(self, item):
            return False

        def __delitem__(self, key):
            pass

        def __str__(self):
            return text

        __repr__ = __str__

        def __format__(self, spec):
            return text

        def __int__(self):
            return 40427

        __index__ = __int__

        def __float__(self):
            return 40427.25

        def __complex__(self):
            return 40427.25j

        def __lt__(self, other):
            return False

        __le__ = __gt__ = __ge__ = __lt__

    def nothing(self, *args):
        return Withheld(None)

    for name in ("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod").split():
        setattr(Withheld, "__%s__" % name, nothing)
        setattr(Withheld, "__r%s__" % name, nothing)
    for name in "neg pos abs invert round trunc floor ceil".split():
        setattr(Withheld, "__%s__" % name, nothing)

    module = types.ModuleType(space["__name__"], None)
    for name in ("__file__", "__package__", "__spec__", "__loader__", "__path__"):
        if name in space:
            setattr(module, name, space[name])
    exec(code, module.__dict__)
    for name in ("SOURCE", "TRUTH", "_decoy"):
        space.pop(name, None)
    for name, value in vars(module).items():
        if not (name.startswith("__") and name.endswith("__")):
            space[name] = wrap(value)
    if "__getattr__" in vars(module):
        # A module that has names only when they are asked for.
        def later(name):
            if name.startswith("__") and name.endswith("__"):
                raise AttributeError(name)
            return wrap(module.__getattr__(name))

        space["__getattr__"] = later
    if "__all__" in vars(module):
        space["__all__"] = module.__all__


_decoy(globals())
