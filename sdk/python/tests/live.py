"""What the client must be able to do, against a live server."""
import http.client
import socket
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlsplit

import assay
from assay import Client, Limits, Sandbox

client = assay.default_client()


def raises(kind, call, *parts, code=""):
    try:
        call()
    except assay.AssayError as e:
        assert type(e) is kind, f"{type(e).__name__}: {e}, want {kind.__name__}"
        for part in parts:
            assert part in str(e), f"{part!r} is not in {e}"
        assert not code or e.code == code, e.code
        return e
    raise AssertionError(f"no {kind.__name__} was raised")


began = time.monotonic()


def step(name):
    print(f"{time.monotonic() - began:6.2f} {name}", flush=True)


# A busy machine makes everything slow. What must be soon is held against what
# would come if nothing was done, which is a minute or more.
SOON = 40


def eventually(what, ask):
    """Asks until the answer is true."""
    end = time.monotonic() + SOON
    while not (answer := ask()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return answer


step("create")
before = datetime.now(timezone.utc)
sbx = Sandbox.create(template="base", ttl_seconds=600, idle_seconds=300, name="first", labels={"course": "1", "ключ": "値"})
assert (sbx.state, sbx.template, sbx.name, sbx.labels) == ("running", "base", "first", {"course": "1", "ключ": "値"}), vars(sbx)
assert sbx.metadata == sbx.labels and sbx.owner == "ann" and sbx.node == "test" and sbx.boot_ms > 0
ttl = timedelta(seconds=600)
assert before + ttl <= sbx.deadline_at <= datetime.now(timezone.utc) + ttl and sbx.idle_seconds == 300, sbx.deadline_at
assert sbx.shape.memory_bytes > 0

step("exec")
t = time.monotonic()
r = sbx.exec("echo out; echo err >&2; exit 3")
took = (time.monotonic() - t) * 1000
assert (r.stdout, r.stderr, r.exit_code, r.cause, r.timed_out, r.ok) == ("out\n", "err\n", 3, "exited", False, False), r
assert r.usage.wall_us > 0 and 0 < r.duration_ms < took + 10, (r.duration_ms, took)
assert sbx.exec(["printf", "%s|", "a b", "$HOME"]).stdout == "a b|$HOME|"
assert sbx.exec("cat; echo $WORD; pwd; id -un", stdin="in\n", env={"WORD": "x y"}, cwd="/tmp", user="root").stdout == "in\nx y\n/tmp\nroot\n"
assert sbx.exec("cat", stdin=b"\xff\x00").stdout_bytes == b"\xff\x00"
r = sbx.exec(["printf", "a\\377b"])
assert r.stdout == "a\ufffdb" and r.stdout_bytes == b"a\xffb", r
e = raises(assay.CommandFailed, lambda: sbx.exec("echo no; exit 7", check=True))
assert e.result.exit_code == 7 and e.result.stdout == "no\n"

step("limits and causes")
t = time.monotonic()
r = sbx.exec("echo before; sleep 60", timeout_seconds=1)
assert (r.exit_code, r.cause, r.timed_out, r.stdout) == (124, "wall_limit", True, "before\n") and time.monotonic() - t < SOON, r
r = sbx.exec("while :; do :; done", limits=Limits(cpu_seconds=0.3))
assert (r.exit_code, r.cause) == (137, "cpu_limit") and r.usage.cpu_us >= 290_000, r
r = sbx.exec(["python3", "-c", "b = bytearray(200 << 20)"], limits=Limits(memory_bytes=64 << 20))
assert r.cause == "memory_limit" and r.exit_code == 137, r
r = sbx.exec("yes | head -c 3000000; echo END", limits=Limits(output_bytes=100_000))
assert r.cause == "exited" and r.stdout_truncated and r.stdout.startswith("y\n") and r.stdout.endswith("END\n") and len(r.stdout) <= 100_000, r.cause
r = sbx.exec("yes", limits=Limits(output_bytes=1000), stop_at_output=True)
assert r.cause == "output_limit" and r.stdout_truncated, r
r = sbx.exec("kill -SEGV $$")
assert (r.cause, r.exit_code, r.signal) == ("signaled", 139, 11), r
raises(assay.BadRequestError, lambda: sbx.exec("true", limits=Limits(output_bytes=5 << 20)), code="sandbox.invalid")
raises(assay.BadRequestError, lambda: sbx.exec([]))

step("the answer to a silent command comes after spaces")
# One that tries again would get the answer all the same.
r = Client(timeout=18, retry_seconds=0).get(sbx.id).exec("sleep 19; echo late")
assert r.stdout == "late\n"

step("a broken connection does not run a command twice")


class Cutting:
    """A proxy that cuts the first connections when the request is through."""

    def __init__(self, target, cuts):
        self.cuts, self.target = cuts, target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            inner, _ = self.listener.accept()
            cut, self.cuts = self.cuts > 0, self.cuts - 1
            outer = socket.create_connection(self.target)
            threading.Thread(target=self.pass_on, args=(inner, outer), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(outer, inner), daemon=True).start()
            if cut:
                time.sleep(0.3)
                for s in (inner, outer):
                    try:
                        s.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass  # it had ended before

    @staticmethod
    def pass_on(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass


host, port = client.url.removeprefix("http://").split(":")
flaky = Client(Cutting((host, int(port)), 3).url)
r = flaky.get(sbx.id).exec("sleep 1; echo line >> /tmp/once; wc -l < /tmp/once")
assert r.stdout.strip() == "1", r
made = Client(Cutting((host, int(port)), 1).url).create("base", labels={"flaky": "1"})
assert [s.id for s in client.sandboxes(labels={"flaky": "1"})] == [made.id]
made.kill()

step("stream")
seen = {"stdout": b"", "stderr": b""}
with sbx.stream("for i in 1 2 3; do echo $i; sleep 0.05; done; echo é漢 >&2; printf '\\377'; exit 5") as out:
    for piece in out:
        seen[piece.stream] += piece.data
assert seen == {"stdout": b"1\n2\n3\n\xff", "stderr": "é漢\n".encode()} and out.result.exit_code == 5, (seen, out.result)
assert sbx.stream("sleep 60", timeout_seconds=0.5).wait().timed_out
with sbx.stream("echo begun; sleep 600") as out:
    next(iter(out))
eventually("the command went on after its reader had gone", lambda: sbx.exec("pgrep -f 'sleep 60[0]'").exit_code != 0)

step("files")
fs = sbx.filesystem
info = fs.write("/home/user/a/b.txt", "text é\n", mode=0o600)
assert (info.size_bytes, info.mode, info.type) == (8, "600", "file") and len(info.sha256) == 64, info
big = bytes(range(256)) * 40_000
fs.write("/home/user/a/big", big)
assert fs.read("/home/user/a/big") == big and fs.read("/home/user/a/big", offset=3, length=2) == b"\x03\x04"
assert b"".join(fs.stream("/home/user/a/big")) == big and fs.read_text("/home/user/a/b.txt") == "text é\n"
assert [f.name for f in fs.list("/home/user/a")] == ["b.txt", "big"]
assert fs.stat("/home/user/a").is_dir and not fs.exists("/nothing")
fs.mkdir("/home/user/d/e")
fs.rename("/home/user/a/b.txt", "/home/user/d/e/c.txt")
fs.chmod("/home/user/d/e/c.txt", 0o755)
assert fs.stat("/home/user/d/e/c.txt").mode == "755"
raises(assay.ConflictError, lambda: fs.remove("/home/user/d"))
fs.remove("/home/user/d", recursive=True)
raises(assay.NotFoundError, lambda: fs.read("/home/user/d/e/c.txt"), code="sandbox.not_found")
raises(assay.BadRequestError, lambda: fs.read("relative"))
raises(assay.NotFoundError, lambda: fs.write("/none/x", "y", parents=False, owner="root"))
with tempfile.TemporaryDirectory() as tmp:
    src = Path(tmp, "src")
    (src / "sub").mkdir(parents=True)
    (src / "sub" / "x.py").write_text("print('x')")
    (src / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (src / "run.sh").chmod(0o755)
    fs.upload(src, "/home/user/up")
    assert sbx.exec("./run.sh && python3 sub/x.py", cwd="/home/user/up").stdout == "ran\nx\n"
    sbx.exec("ln -s /etc/passwd link", cwd="/home/user/up")
    fs.download("/home/user/up", Path(tmp, "back"))
    assert (Path(tmp, "back", "sub", "x.py").read_text(), sorted(p.name for p in Path(tmp, "back").iterdir())) == ("print('x')", ["run.sh", "sub"])
    fs.download("/home/user/up/run.sh", Path(tmp, "one"))
    assert Path(tmp, "one").read_text().startswith("#!")

# Parents are made also for who says nothing of them.
with client._transport.open(
    "PUT", f"/api/v1/sandboxes/{sbx.id}/files", query={"path": "/home/user/deep/er/x"}, body=b"1", headers={"Content-Type": "application/octet-stream"},
) as answer:
    answer.read()
assert fs.stat("/home/user/deep/er/x").mode == "644"

step("watch")
with sbx.watch("/home/user", exclude=["node_modules/**"]) as watch:
    changes, got = iter(watch), []
    for op, command in {
        "created": "mkdir -p node_modules && echo 1 > node_modules/n; echo 1 > w.txt", "modified": "echo 2 > w.txt", "removed": "rm w.txt",
    }.items():
        sbx.exec(command)
        # Changes of a path that come together are one event: the next one is made
        # when this one was told. A slow machine may tell of it in two.
        while op not in got:
            e = next(changes)
            assert not e.path.startswith("node_modules/"), e
            if e.path == "w.txt":
                got.append(e.op)
assert list(dict.fromkeys(got)) == ["created", "modified", "removed"], got
with sbx.watch("/home/user", watch_id="mine") as watch:
    assert watch.id == "mine"
    fs.write("/home/user/first", "1")
    first = next(iter(watch))
fs.write("/home/user/second", "2")
with sbx.watch("/home/user", watch_id="mine", after=first.seq) as watch:
    second = next(iter(watch))
assert (first.path, second.path, second.seq) == ("first", "second", first.seq + 1), (first, second)

step("lifecycle")
assert sbx.network()["attempts"] == 0 and "policy" not in sbx.network()
raises(assay.ConflictError, lambda: sbx.set_network(["web.example.org"]), "without a network")
raises(assay.ConflictError, sbx.network_off)
sbx.end_setup()
raises(assay.BadRequestError, lambda: assay.Sandbox.create(allow=["127.0.0.1"], client=sbx.client), "address")
sbx.pause()
assert sbx.state == "paused" and sbx.refresh().state == "paused"
raises(assay.ConflictError, lambda: sbx.exec("true"), "paused", "resume")
sbx.resume()
before = sbx.deadline_at
sbx.keep_alive(ttl_seconds=1200)
assert sbx.deadline_at > before and sbx.state == "running"
sbx.keep_alive()
raises(assay.BadRequestError, lambda: sbx.extend(0))

step("ports")
sbx.exec("python3 -m http.server 8123 >/dev/null 2>&1 &", cwd="/home/user/up", background=True)


def fetched():
    try:
        return sbx.open_port(8123, "/run.sh")
    except assay.UnavailableError:
        return b""  # it has not begun to listen


page = eventually("the server in the sandbox does not answer", fetched)
assert page.startswith(b"#!/bin/sh")


def visit(url, **headers):
    """Asks for a preview as a browser does, which knows the names below localhost."""
    u = urlsplit(url)
    c = http.client.HTTPConnection("127.0.0.1", u.port, timeout=SOON)
    c.request("GET", u.path + ("?" + u.query if u.query else ""), headers={"Host": u.netloc, **headers})
    r = c.getresponse()
    return r.status, r.headers, r.read()


preview = sbx.preview(8123, ttl_seconds=600, path="/run.sh")
assert preview.port == 8123 and before < preview.expires_at and f"8123-{sbx.id}." in preview.url, preview
status, headers, _ = visit(preview.url)
assert status == 303 and "assay-preview" not in headers["Location"], (status, headers)
cookie = headers["Set-Cookie"].split(";")[0]
assert visit(headers["Location"], Cookie=cookie)[::2] == (200, page)
sbx.revoke_previews()
assert visit(headers["Location"], Cookie=cookie)[0] == 403
raises(assay.BadRequestError, lambda: sbx.preview(0))
raises(assay.BadRequestError, lambda: sbx.preview(80, ttl_seconds=1e6))

step("snapshot and fork")
snap = sbx.snapshot(keep_seconds=3600, name="ready", labels={"q": "1"})
assert snap.sandbox_id == sbx.id and snap.size_bytes > 0 and snap.expires_at > snap.created_at and snap.labels == {"q": "1"}
assert [s.id for s in client.snapshots(labels={"q": "1"})] == [snap.id] and client.snapshot(snap.id).name == "ready"
fs.write("/home/user/first", "changed")
children = snap.fork(2, ttl_seconds=300, labels={"from": "snapshot"})
assert len(children) == 2 and not children.problems and all(c.snapshot_id == snap.id for c in children)
assert all(c.filesystem.read("/home/user/first") == b"1" for c in children)
assert children[0].exec("cat /etc/machine-id").stdout != children[1].exec("cat /etc/machine-id").stdout
(live,) = sbx.fork(labels={"from": "live"})
assert live.boot_mode == "fork" and live.parent == sbx.id and live.filesystem.read("/home/user/first") == b"changed"
assert live.open_port(8123, "/run.sh") == page, "a fork without memory"
assert {s.id for s in client.sandboxes(labels={"from": "snapshot"})} == {c.id for c in children}
for c in [*children, live]:
    c.kill()
snap.delete()
raises(assay.NotFoundError, lambda: snap.create())

step("templates, quota, events")
assert any(t.name == "base" and t.built and t.shape.vcpus > 0 for t in client.templates()) and client.template("base").built
q = client.quota()
assert q.limits.cpu_seconds_today == 3600 and q.used.sandboxes == 1, q
kinds = [e.kind for e in sbx.events()]
assert kinds[0] == "created" and {"exec", "paused", "resumed", "snapshot", "fork"} <= set(kinds), kinds

step("errors")
e = raises(assay.AuthError, lambda: next(Client(token="wrong").sandboxes()), code="sandbox.unauthenticated")
assert e.status == 401 and e.hint and e.request_id
raises(assay.AuthError, lambda: next(Client(token="").sandboxes()))
raises(assay.PermissionDenied, lambda: next(Client(token="not").sandboxes()))
raises(assay.NotFoundError, lambda: Client(token="bob").get(sbx.id))
raises(assay.NotFoundError, lambda: Sandbox.create("nothing-like-it"))
raises(assay.BadRequestError, lambda: Sandbox.create("base", labels={str(i): "" for i in range(33)}))
few = Client(token="few")
with few.create():
    raises(assay.LimitError, lambda: few.create(), "1 of 1 sandboxes", code="sandbox.limited")
raises(assay.ConnectionFailed, lambda: Client("http://127.0.0.1:1", retry_seconds=0).quota())

step("kill")
sbx.refresh()
assert sbx.usage.cpu_us > 0 and sbx.usage.memory_gib_seconds > 0 and sbx.usage.snapshot_bytes > 0, sbx.usage
sbx.kill()
sbx.kill()
sbx.refresh()
assert (sbx.state, sbx.end_reason, sbx.end_cause) == ("ended", "killed by ann", "killed"), vars(sbx)
raises(assay.ConflictError, lambda: sbx.exec("true"), "killed by ann", code="sandbox.conflict")
assert sbx.events()[-1].kind == "ended"
assert sbx.id in [s.id for s in client.sandboxes(all=True)] and list(client.sandboxes()) == []
step("done")
