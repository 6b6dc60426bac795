"""Capture what somebody made, and grade it in a fresh sandbox with tests that
were never in theirs: nothing that they left running or changed there counts,
and nothing hidden was ever within their reach."""

import io
import tarfile

from assay import Limits, Sandbox

HIDDEN = {  # arguments and what must come out; decided here, outside
    "2024": "True", "1900": "False", "2000": "True",
}

# Where the person works.
with Sandbox.create(template="base", ttl_seconds=600, labels={"kind": "work"}) as work:
    work.filesystem.write("/home/user/hand-in/leap.py", "import sys\nfrom rule import leap\nprint(leap(int(sys.argv[1])))\n")
    work.filesystem.write("/home/user/hand-in/rule.py", "def leap(y): return y % 4 == 0\n")  # wrong for 1900
    # Freeze first, grade later: the archive is what was handed in.
    archive = work.filesystem.read_tar("/home/user/hand-in")
    assert "2024" not in work.exec("grep -r 2024 /home/user || true").stdout
with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
    print(f"captured {sum(m.isfile() for m in tar)} files")

# A machine that nobody has had a shell on, with processors of its own.
with Sandbox.create(template="base", ttl_seconds=300, dedicated=True, labels={"kind": "grading"}) as fresh:
    fresh.filesystem.write_tar("/home/user/hand-in", archive)
    passed = 0
    for argument, want in HIDDEN.items():  # one case at a time
        r = fresh.exec(
            ["python3", "leap.py", argument], cwd="/home/user/hand-in", isolated=True, timeout_seconds=20,
            limits=Limits(cpu_seconds=5, memory_bytes=128 << 20, processes=16, output_bytes=64 << 10),
        )
        ok = r.ok and r.stdout.strip() == want
        passed += ok
        print(f"case {argument}: {'passed' if ok else 'failed'} ({r.cause}, {r.usage.cpu_us / 1000:.0f} ms)")
print(f"hidden tests: {passed} of {len(HIDDEN)} passed")
print("the hidden tests were never in the person's sandbox")
