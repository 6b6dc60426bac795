// What the client must be able to do, against a live server.
import assert from "node:assert/strict";
import http from "node:http";
import {
  AuthError, BadRequestError, Client, CommandFailed, ConflictError, ConnectionFailed, LimitError, NotFoundError, PermissionDenied, AssayError,
} from "../src/index.js";

const began = performance.now();
const step = (name: string) => console.log(((performance.now() - began) / 1000).toFixed(2).padStart(6), name);
const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));
// eventually asks until the answer is true. A busy machine makes everything slow:
// what must be soon is held against what would come if nothing was done.
const eventually = async (what: string, ask: () => boolean | Promise<boolean>) => {
  for (const end = performance.now() + 40_000; !(await ask());) {
    assert.ok(performance.now() < end, what);
    await sleep(50);
  }
};
const rejects = async (kind: typeof AssayError, call: () => Promise<unknown>, part = "", code = "") => {
  let error: unknown;
  try {
    await call();
  } catch (e) {
    error = e;
  }
  assert.ok(error instanceof AssayError, `no ${kind.name}: ${error}`);
  assert.equal(error.constructor.name, kind.name, String(error));
  assert.ok(error.message.includes(part), error.message);
  if (code) assert.equal(error.code, code);
  return error;
};

const client = new Client();
step("create");
const sbx = await client.create({ template: "base", ttlSeconds: 600, labels: { course: "1", snake_case: "値" } });
assert.equal(sbx.state, "running");
assert.deepEqual(sbx.labels, { course: "1", snake_case: "値" });
assert.ok(sbx.info.bootMs > 0 && sbx.info.shape.memoryBytes > 0 && sbx.info.deadlineAt > sbx.info.createdAt);

step("exec");
let r = await sbx.exec("echo out; echo err >&2; exit 3");
assert.deepEqual([r.stdout, r.stderr, r.exitCode, r.cause, r.timedOut], ["out\n", "err\n", 3, "exited", false]);
assert.ok(r.usage.wallUs > 0 && r.durationMs > 0);
r = await sbx.exec(["printf", "%s|", "a b", "$HOME"]);
assert.equal(r.stdout, "a b|$HOME|");
r = await sbx.exec("cat; echo $MY_WORD; pwd", { stdin: "in\n", env: { MY_WORD: "x y" }, cwd: "/tmp" });
assert.equal(r.stdout, "in\nx y\n/tmp\n");
r = await sbx.exec("cat", { stdin: new Uint8Array([255, 0]) });
assert.deepEqual([...r.stdoutBytes], [255, 0]);
r = await sbx.exec("echo before; sleep 60", { timeoutSeconds: 1 });
assert.deepEqual([r.exitCode, r.cause, r.timedOut, r.stdout], [124, "wall_limit", true, "before\n"]);
r = await sbx.exec(["python3", "-c", "b = bytearray(200 << 20)"], { limits: { memoryBytes: 64 << 20 } });
assert.deepEqual([r.exitCode, r.cause], [137, "memory_limit"]);
await rejects(CommandFailed, () => sbx.exec("exit 7", { check: true }));
await rejects(BadRequestError, () => sbx.exec("true", { limits: { outputBytes: 5 << 20 } }), "", "sandbox.invalid");

step("stream");
let out = "", err = "";
r = await sbx.follow("for i in 1 2 3; do echo $i; done; echo é漢 >&2; exit 5", { stdout: (t) => (out += t), stderr: (t) => (err += t) });
assert.deepEqual([out, err, r.exitCode], ["1\n2\n3\n", "é漢\n", 5]);
for await (const piece of sbx.stream("echo begun; sleep 600")) {
  assert.equal(piece.text, "begun\n");
  break;
}
await eventually("the command went on after its reader had gone", async () => (await sbx.exec("pgrep -f 'sleep 60[0]'")).exitCode !== 0);
const stop = new AbortController();
setTimeout(() => stop.abort(), 100);
await assert.rejects(sbx.exec("sleep 60", { signal: stop.signal }), { name: "AbortError" });

step("files");
const fs = sbx.filesystem;
const written = await fs.write("/home/user/a/b.txt", "text é\n", { mode: 0o600 });
assert.deepEqual([written.sizeBytes, written.mode, written.sha256?.length], [8, "600", 64]);
assert.equal(await fs.readText("/home/user/a/b.txt"), "text é\n");
assert.deepEqual([...(await fs.read("/home/user/a/b.txt", { offset: 1, length: 2 }))], [101, 120]);
await fs.write("/home/user/a/streamed", new Blob(["x".repeat(100_000)]).stream());
assert.equal((await fs.stat("/home/user/a/streamed")).sizeBytes, 100_000);
assert.deepEqual((await fs.list("/home/user/a")).map((f) => f.name), ["b.txt", "streamed"]);
await fs.mkdir("/home/user/d");
await fs.rename("/home/user/a/b.txt", "/home/user/d/c.txt");
await fs.chmod("/home/user/d/c.txt", 0o755);
assert.equal((await fs.stat("/home/user/d/c.txt")).mode, "755");
await fs.writeTar("/home/user/copy", await fs.readTar("/home/user/d"));
assert.equal(await fs.readText("/home/user/copy/c.txt"), "text é\n");
await rejects(ConflictError, () => fs.remove("/home/user/d"));
await fs.remove("/home/user/d", { recursive: true });
assert.equal(await fs.exists("/home/user/d"), false);
await rejects(NotFoundError, () => fs.read("/home/user/d/c.txt"), "", "sandbox.not_found");

step("watch");
const watch = await sbx.watch("/home/user");
const changes = watch[Symbol.asyncIterator]();
const seen: string[] = [];
for (const [op, command] of [["created", "echo 1 > w.txt"], ["removed", "rm w.txt"]] as const) {
  await sbx.exec(command);
  // A slow machine may tell of one change in two events.
  while (!seen.includes(`${op} w.txt`)) {
    const { value: e } = await changes.next();
    assert.ok(e && e.at instanceof Date);
    seen.push(`${e.op} ${e.path}`);
  }
}
assert.deepEqual(seen.filter((line) => line !== "modified w.txt"), ["created w.txt", "removed w.txt"]);
await watch.close();

step("terminal");
{
  const terminal = await sbx.terminal({ rows: 10, cols: 40, id: "mine" });
  let shown = "";
  terminal.onOutput = (data) => (shown += new TextDecoder().decode(data));
  terminal.resize(33, 77);
  terminal.write("stty size; MARK=kept\r");
  await eventually("the terminal does not show its size", () => shown.includes("33 77"));
  terminal.close();
  const again = await sbx.terminal({ id: "mine", attach: true });
  let more = "";
  again.onOutput = (data) => (more += new TextDecoder().decode(data));
  again.write("echo $MARK-still; exit 9\r");
  // Who types while it ends hears how it ended all the same.
  const typing = setInterval(() => again.write("x"), 1);
  const end = await again.ended.finally(() => clearInterval(typing));
  assert.equal(end.exitCode, 9);
  assert.ok(more.includes("kept-still"), more);
  // What is shown at once is not lost.
  const quick = await sbx.terminal({ command: "echo at once" });
  let first = "";
  quick.onOutput = (data) => (first += new TextDecoder().decode(data));
  assert.equal((await quick.ended).exitCode, 0);
  assert.ok(first.includes("at once"), first);
}

step("lifecycle");
assert.deepEqual(await sbx.network(), { attempts: 0, sentBytes: 0, receivedBytes: 0 });
await rejects(ConflictError, () => sbx.setNetwork({ allow: ["web.example.org"] }));
await rejects(ConflictError, () => sbx.networkOff());
await sbx.endSetup();
await rejects(BadRequestError, () => client.create({ network: { allow: ["127.0.0.1"] } }));
await sbx.pause();
assert.equal((await client.get(sbx.id)).state, "paused");
await rejects(ConflictError, () => sbx.exec("true"), "paused");
await sbx.resume();
const before = sbx.info.deadlineAt;
await sbx.keepAlive(1200);
assert.ok(sbx.info.deadlineAt > before);

step("preview");
{
  await sbx.exec("python3 -m http.server 8123 >/dev/null 2>&1 &", { background: true, cwd: "/etc" });
  const preview = await sbx.preview(8123, { ttlSeconds: 600, path: "/hostname" });
  assert.ok(preview.port === 8123 && preview.expiresAt > new Date() && preview.url.includes(`//8123-${sbx.id}.`), preview.url);
  // As a browser, which knows the names below localhost.
  const visit = (url: string, headers: Record<string, string> = {}) => new Promise<http.IncomingMessage>((done, fail) => {
    const u = new URL(url);
    http.get({ host: "127.0.0.1", port: u.port, path: u.pathname + u.search, headers: { host: u.host, ...headers } }, (r) => done(r.resume())).on("error", fail);
  });
  const first = await visit(preview.url);
  assert.equal(first.statusCode, 303);
  const cookie = first.headers["set-cookie"]![0]!.split(";")[0]!;
  await eventually("the server in the sandbox does not answer", async () => (await visit(first.headers.location!, { cookie })).statusCode === 200);
  await sbx.revokePreviews();
  assert.equal((await visit(first.headers.location!, { cookie })).statusCode, 403);
  await rejects(BadRequestError, () => sbx.preview(0));
}

step("snapshot and fork");
const snap = await sbx.snapshot({ keepSeconds: 3600, name: "ready", labels: { q: "1" } });
assert.ok(snap.info.sizeBytes > 0 && snap.info.expiresAt! > snap.info.createdAt);
const { sandboxes: [copy], problems } = await snap.fork({ labels: { from: "snapshot" } });
assert.equal(problems.length, 0);
assert.equal(await copy!.filesystem.readText("/home/user/copy/c.txt"), "text é\n");
const { sandboxes: [child] } = await sbx.fork({ ttlSeconds: 60 });
assert.deepEqual([child!.info.bootMode, child!.info.parent], ["fork", sbx.id]);
const listed: string[] = [];
for await (const s of client.sandboxes({ labels: { from: "snapshot" } })) listed.push(s.id);
assert.deepEqual(listed, [copy!.id]);
for await (const s of client.snapshots({ sandbox: sbx.id })) assert.equal((await client.snapshot(s.id)).info.name, "ready");
await Promise.all([copy!.kill(), child!.kill()]);
await snap.delete();
await rejects(NotFoundError, () => snap.create());

step("templates, quota, events");
assert.ok((await client.templates()).some((t) => t.name === "base" && t.built));
assert.deepEqual([(await client.quota()).limits.cpuSecondsToday, (await client.quota()).used.sandboxes], [3600, 1]);
assert.equal((await sbx.events())[0]!.kind, "created");

step("errors");
const wrong = await rejects(AuthError, () => new Client({ token: "wrong" }).quota(), "", "quota.unauthenticated");
assert.ok(wrong.status === 401 && wrong.hint && wrong.requestId);
await rejects(PermissionDenied, () => new Client({ token: "not" }).create());
await rejects(NotFoundError, () => new Client({ token: "bob" }).get(sbx.id));
const few = new Client({ token: "few" });
const only = await few.create();
await rejects(LimitError, () => few.create(), "1 of 1 sandboxes", "sandbox.limited");
await only.kill();
await rejects(ConnectionFailed, () => new Client({ url: "http://127.0.0.1:1", retryMs: 0 }).quota());

step("kill");
await sbx.kill();
await sbx.kill();
await sbx.refresh();
assert.deepEqual([sbx.state, sbx.info.endReason, sbx.info.endCause], ["ended", "killed by ann", "killed"]);
await rejects(ConflictError, () => sbx.exec("true"), "killed by ann");
step("done");
