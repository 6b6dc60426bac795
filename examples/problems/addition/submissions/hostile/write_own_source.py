# @EXPECTED_RESULTS@: RE
# The same in Python, where the source is the program.
import os

for path in (__file__, "/box/in"):
    try:
        os.chmod(path, 0o777)
    except OSError:
        pass
os.remove(__file__)
