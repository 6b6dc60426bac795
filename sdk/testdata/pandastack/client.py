"""What the published Python client must be able to do, unchanged."""
import time

import pandastack
from pandastack import Client, Sandbox

client = Client()
pandastack.set_default_client(client)


def raises(kind, call, *parts):
    try:
        call()
    except pandastack.PandastackError as e:
        assert type(e) is kind, f"{type(e).__name__}: {e}, want {kind.__name__}"
        for part in parts:
            assert part in str(e), f"{part!r} is not in {e}"
        return e
    raise AssertionError(f"no {kind.__name__} was raised")


def step(name):
    print(f"{time.monotonic() - began:6.2f} {name}", flush=True)


began = time.monotonic()
# A busy machine makes everything slow. What must be soon is held against what
# would come if nothing was done, which is a minute or more.
SOON = 40


def eventually(what, ask):
    """Asks until the answer is true."""
    end = time.monotonic() + SOON
    while not ask():
        assert time.monotonic() < end, what
        time.sleep(0.05)


step("create with the default template")
sbx = Sandbox.create(ttl_seconds=600, metadata={"app": "demo", "n": "1"})
assert sbx.status == "running" and sbx.metadata == {"app": "demo", "n": "1"}, sbx
assert sbx.cpu >= 1 and sbx.memory_mb > 0 and sbx.created_at and sbx.boot_mode in ("cold", "snapshot"), sbx
assert sbx.template == "base"

step("exec")
t = time.monotonic()
r = sbx.exec("echo out; echo err >&2; exit 3")
assert (r.stdout, r.stderr, r.exit_code) == ("out\n", "err\n", 3), r
assert 0 <= r.duration_ms < (time.monotonic() - t) * 1000 + 10, r
assert sbx.commands.run("id -un").stdout == "root\n"
e = raises(pandastack.CommandFailed, lambda: sbx.exec("echo no; exit 7", check=True))
assert e.exit_code == 7 and e.stdout == "no\n"
assert sbx.run_code("print(6 * 7)").stdout == "42\n"
assert sbx.run_code("echo $((6 * 7))", "shell").stdout == "42\n"

step("a command at its time limit gives what it printed, and 124")
t = time.monotonic()
r = sbx.exec("echo before; sleep 60; echo after", timeout_seconds=1)
took = time.monotonic() - t
assert r.exit_code == 124 and r.stdout == "before\n", r
assert 900 <= r.duration_ms < SOON * 1000 and took < SOON, (r.duration_ms, took)
assert sbx.exec("pgrep -f 'sleep 6[0]' || echo none").stdout == "none\n", "the command went on"

step("a command that is silent for longer than the client waits for bytes")
impatient = Client(timeout=18)
r = impatient.sandboxes.get(sbx.id).exec("sleep 20; echo late", timeout_seconds=120)
assert r.stdout == "late\n" and r.duration_ms >= 20_000, r

step("what is left in the background goes on")
sbx.exec("nohup sh -c 'sleep 1; echo done > /tmp/background' >/dev/null 2>&1 &")
eventually("it did not go on", lambda: sbx.filesystem.exists("/tmp/background"))

step("stream")
out, err = [], []
code = sbx.exec_stream("for i in 1 2 3; do echo $i; done; echo é漢 >&2; exit 5", out.append, err.append)
assert code == 5 and "".join(out) == "1\n2\n3\n" and "".join(err) == "é漢\n", (code, out, err)
t = time.monotonic()
assert sbx.exec_stream("sleep 60", timeout_seconds=1) == 124 and time.monotonic() - t < SOON

step("files")
fs = sbx.filesystem
fs.write("/work/a/b.txt", "text é\n")
fs.write("/work/a/c.bin", bytes(range(256)) * 4096)
assert fs.read("/work/a/b.txt") == "text é\n".encode()
assert fs.read("/work/a/c.bin") == bytes(range(256)) * 4096
assert sorted(f.name for f in fs.listdir("/work/a")) == ["b.txt", "c.bin"]
info = fs.stat("/work/a/c.bin")
assert (info.size, info.is_dir, info.path, info.mode) == (1 << 20, False, "/work/a/c.bin", "0644"), info
assert fs.stat("/work").is_dir and abs(info.mtime - time.time()) < 60
assert fs.exists("/work/a") and not fs.exists("/work/nothing")
assert [d for d, _, _ in fs.walk("/work")] == ["/work", "/work/a"]
raises(pandastack.NotFoundError, lambda: fs.read("/work/nothing"))
raises(pandastack.NotFoundError, lambda: fs.stat("/work/nothing"))
raises(pandastack.BadRequestError, lambda: fs.read("relative"))
raises(pandastack.BadRequestError, lambda: fs.write("/work/large", b"x" * ((32 << 20) + 1)))
assert not fs.exists("/work/large")

step("get, list, refresh, lifecycle")
assert Sandbox.get(sbx.id).metadata == sbx.metadata and sbx.refresh().status == "running"
assert sbx.id in [s.id for s in Sandbox.list()]
assert sbx.set_ttl(1200)["ttl_seconds"] == 1200
assert sbx.lifecycle()["ttl_seconds"] == 1200 and sbx.lifecycle()["persistent"] is False
assert sbx.set_persistent(True)["persistent"] is True
assert sbx.set_persistent(False)["ttl_seconds"] > 0
sbx.pause()
assert Sandbox.get(sbx.id).status == "paused"
raises(pandastack.BadRequestError, lambda: sbx.exec("true"), "paused")
sbx.resume()
assert sbx.exec("echo on").stdout == "on\n"

step("snapshot, and a sandbox of it")
sbx.exec("nohup python3 -c 'import time; open(\"/tmp/alive\", \"w\").write(\"x\"); time.sleep(3600)' >/dev/null 2>&1 &")
eventually("the program did not begin", lambda: fs.exists("/tmp/alive"))
snapshot = sbx.snapshot()
assert isinstance(snapshot, str) and snapshot
fs.write("/work/a/b.txt", "changed after")
copy = Sandbox.create(from_snapshot=snapshot, metadata={"copy": "yes"})
assert copy.from_snapshot == snapshot and copy.boot_mode == "snapshot" and copy.id != sbx.id
assert copy.filesystem.read("/work/a/b.txt") == "text é\n".encode()
assert copy.exec("pgrep -c python3").stdout == "1\n", "memory was not restored"
listed = client.snapshots.list(sandbox_id=sbx.id)
assert [s["id"] for s in listed] == [snapshot] and listed[0]["size_bytes"] > 0, listed
assert client.snapshots.get(snapshot)["sandbox_id"] == sbx.id
client.snapshots.delete(snapshot)
raises(pandastack.NotFoundError, lambda: client.snapshots.get(snapshot))
raises(pandastack.NotFoundError, lambda: Sandbox.create(from_snapshot=snapshot))
assert copy.exec("echo on").stdout == "on\n"
copy.kill()

step("fork")
child = sbx.fork(metadata={"role": "child"})
assert child.boot_mode == "fork" and child.metadata["role"] == "child" and child.metadata["fork_parent_id"] == sbx.id
assert child.filesystem.read("/work/a/b.txt") == b"changed after"
assert child.exec("pgrep -c python3").stdout == "1\n", "a fork without memory"
child.filesystem.write("/work/a/b.txt", "the child's")
assert sbx.filesystem.read("/work/a/b.txt") == b"changed after"
child.kill()

step("fork tree and promote")
children = sbx.fork_tree(2, metadata={"tree": "1"})
assert len({c.id for c in children}) == 2 and all(c.exec("echo $PPID").exit_code == 0 for c in children)
promoted = children[0].promote(cleanup_siblings=True)
assert promoted["winner"] == children[0].id and promoted["deleted"] == [children[1].id] and not promoted["failures"], promoted
raises(pandastack.NotFoundError, lambda: Sandbox.get(children[1].id))
children[0].kill()

step("explore")
result = sbx.explore(
    ["echo FAIL; exit 1", "echo PASS > /work/result; echo PASS"],
    score_fn=lambda sb, o: 1.0 if "PASS" in o.stdout_tail else 0.0,
)
assert result.winner and result.winner_outcome.label.startswith("echo PASS"), result
assert result.winner.filesystem.read("/work/result") == b"PASS\n" and len(result.reaped) == 1, result.reaped
result.winner.kill()

step("logs, ports")
assert any(" exec " in line for line in sbx.logs())
sbx.exec("cd /work && nohup python3 -m http.server 8123 >/dev/null 2>&1 &")
eventually("the server in the sandbox does not listen", lambda: 8123 in sbx.preview_urls())
page = client.session.get(f"{client.api_url}/v1/sandboxes/{sbx.id}/proxy/8123/a/b.txt", headers={"Cookie": "secret=1"})
assert page.status_code == 200 and page.text == "changed after", page.text
refused = client.session.get(f"{client.api_url}/v1/sandboxes/{sbx.id}/proxy/8124/")
assert refused.status_code == 503 and "refused" not in refused.text, refused.text

step("templates, me")
assert client.me()["id"] == "ann"
assert "base" in [t.name for t in client.templates.list()]
assert client.templates.get("code-interpreter").name == "code-interpreter"

step("errors by class")
raises(pandastack.AuthError, lambda: Client(api_key="pds_wrong").sandboxes.list())
bob = Client(api_key="pds_bob")
raises(pandastack.NotFoundError, lambda: bob.sandboxes.get(sbx.id))
raises(pandastack.NotFoundError, lambda: bob.sandboxes.delete(sbx.id))
assert bob.sandboxes.list() == []
raises(pandastack.BadRequestError, lambda: Client(api_key="pds_not").sandboxes.list(), "does not reach")
raises(pandastack.BadRequestError, lambda: Sandbox.create(ttl_seconds=-1))
raises(pandastack.BadRequestError, lambda: Sandbox.create(template="../../etc"))
raises(pandastack.NotFoundError, lambda: Sandbox.create(template="nothing-like-it"))
raises(pandastack.BadRequestError, lambda: Sandbox.create(volumes=[{"name": "v"}]), "volumes")
raises(pandastack.BadRequestError, lambda: sbx.exec(""), "cmd required")
few = Client(api_key="pds_few")
one = few.sandboxes.create("base")
answers = []
few.session.hooks["response"].append(lambda answer, **_: answers.append(answer.status_code))
raises(pandastack.BadRequestError, lambda: few.sandboxes.create("base"), "1 of 1 sandboxes")
assert answers == [429], "the client asked again, as of a full server"
one.kill()
raises(pandastack.ServerError, lambda: sbx.create_code_context(), "REPL kernel")
raises(pandastack.ServerError, lambda: sbx.hibernate(), "hibernation")
raises(pandastack.ServerError, lambda: client.volumes.list(), "volumes")

step("kill")
with Sandbox.create() as inner:
    assert inner.exec("echo inner").stdout == "inner\n"
raises(pandastack.NotFoundError, lambda: inner.exec("true"))
sbx.kill()
sbx.kill()
raises(pandastack.NotFoundError, lambda: sbx.refresh())
raises(pandastack.NotFoundError, lambda: Sandbox.get("no-such-sandbox").kill())
assert Sandbox.list() == []
step("done")
