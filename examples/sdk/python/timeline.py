"""Prepare a question once, as a snapshot; give each candidate a sandbox of it in
an instant; record what happens to the files as a timeline."""

import json

from assay import Sandbox

# What every candidate finds: files, and whatever is installed and running.
with Sandbox.create(template="base", ttl_seconds=600) as prepare:
    prepare.filesystem.write("/home/user/question/README.md", "# Leap years\n\nWrite leap(year) in solution.py.\n")
    prepare.exec("git init -q . 2>/dev/null; python3 -c 'import json'", cwd="/home/user/question")
    question = prepare.snapshot(keep_seconds=3600, name="leap", labels={"question": "leap"})

candidate = question.create(ttl_seconds=600, labels={"candidate": "c-17"})
print(f"made of the question's snapshot in {candidate.boot_ms:.0f} ms")

timeline = []

# The watch begins before this returns: nothing is missed. Events wait in the
# sandbox for whoever reads them; numbers have no gaps, so that a recorder that was
# away goes on behind the last.
watch = candidate.watch("/home/user/question", exclude=[".git/**", "__pycache__/**"], watch_id="timeline")
changes = iter(watch)


def record_until(op, path):
    for change in changes:
        timeline.append({"seq": change.seq, "at": change.at.isoformat(), "op": change.op, "path": change.path})
        if (change.op, change.path) == (op, path):
            return


# The candidate works.
candidate.filesystem.write("/home/user/question/solution.py", "def leap(y): return y % 4 == 0\n")
record_until("created", "solution.py")
candidate.exec("echo 'assert leap(2024)' >> solution.py", cwd="/home/user/question")
record_until("modified", "solution.py")
candidate.filesystem.write("/home/user/question/notes.md", "centuries!\n")
record_until("created", "notes.md")

watch.close()
candidate.kill()
for line in timeline:
    print(line["op"], line["path"], json.dumps(line))
question.delete()
