// What the published JavaScript client must be able to do, unchanged.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import {
  AuthError, BadRequestError, Client, CommandError, NotFoundError, Sandbox, ServerError,
} from "@pandastack/sdk";

const WebSocket = createRequire(import.meta.url)("ws");
const began = performance.now();
const step = (name) => console.log(((performance.now() - began) / 1000).toFixed(2).padStart(6), name);
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const client = new Client();
const rejects = async (kind, call, part = "") => {
  await assert.rejects(call, (e) => {
    assert.equal(e.constructor.name, kind.name, `${e.constructor.name}: ${e.message}`);
    assert.ok(e.message.includes(part), `${part} is not in ${e.message}`);
    return true;
  });
};

step("create with the default template");
const sbx = await Sandbox.create({ ttlSeconds: 600, metadata: { app: "demo" } });
assert.equal(sbx.status, "running");
assert.deepEqual(sbx.info.metadata, { app: "demo" });

step("exec");
let r = await sbx.exec("echo out; echo err >&2; exit 3");
assert.deepEqual([r.stdout, r.stderr, r.exitCode], ["out\n", "err\n", 3]);
r = await sbx.exec("echo before; sleep 60", { timeoutSeconds: 1 });
assert.equal(r.exitCode, 124);
assert.equal(r.stdout, "before\n");
assert.equal(r.timed_out, true);
assert.equal(r.cause, "wall_limit");
// A busy machine makes everything slow; the command would have taken a minute.
assert.ok(r.duration_ms >= 900 && r.duration_ms < 40_000, String(r.duration_ms));
await rejects(CommandError, () => sbx.exec("exit 7", { check: true }));
assert.equal((await sbx.runCode("print(6 * 7)", "python")).stdout, "42\n");

step("stream");
let out = "", err = "";
const code = await sbx.execStream("echo 1; echo 漢 >&2; exit 5", { onStdout: (c) => (out += c), onStderr: (c) => (err += c) });
assert.deepEqual([code, out, err], [5, "1\n", "漢\n"]);

step("files");
await sbx.filesystem.write("/work/a/b.txt", "text é\n");
assert.equal(await sbx.filesystem.read("/work/a/b.txt"), "text é\n");
assert.deepEqual((await sbx.filesystem.list("/work/a")).map((f) => f.name), ["b.txt"]);
assert.equal((await sbx.filesystem.stat("/work/a/b.txt")).size, 8);
assert.equal(await sbx.filesystem.exists("/work/nothing"), false);
await rejects(NotFoundError, () => sbx.filesystem.read("/work/nothing"));

step("lifecycle");
assert.equal((await sbx.setTtl(1200)).ttl_seconds, 1200);
assert.equal((await sbx.setPersistent(true)).persistent, true);
assert.equal((await sbx.lifecycle()).persistent, true);
await sbx.setPersistent(false);
await sbx.pause();
assert.equal((await client.sandboxes.get(sbx.id)).status, "paused");
await rejects(BadRequestError, () => sbx.exec("true"), "paused");
await sbx.resume();
assert.ok((await client.sandboxes.list()).some((s) => s.id === sbx.id));

step("snapshot, and a sandbox of it");
const snap = await sbx.snapshot();
assert.equal(snap.sandbox_id, sbx.id);
await sbx.filesystem.write("/work/a/b.txt", "changed after");
const copy = await Sandbox.create({ fromSnapshot: snap.id });
assert.equal(await copy.filesystem.read("/work/a/b.txt"), "text é\n");
await client.snapshots.delete(snap.id);
await copy.kill();

step("fork, tree, promote, explore");
const child = await sbx.fork();
assert.notEqual(child.id, sbx.id);
assert.equal(await child.filesystem.read("/work/a/b.txt"), "changed after");
await child.kill();
const children = await sbx.forkTree({ count: 2 });
assert.equal(new Set(children.map((c) => c.id)).size, 2);
const promoted = await children[0].promote({ cleanupSiblings: true });
assert.deepEqual(promoted.deleted, [children[1].id]);
await children[0].kill();
const found = await sbx.explore(["exit 1", "echo PASS"], { scoreFn: (_, o) => (o.stdoutTail.includes("PASS") ? 1 : 0) });
assert.equal(found.winnerOutcome.label, "echo PASS");
await found.winner.kill();

step("logs and ports");
let lines = 0;
for await (const line of sbx.logs()) lines += line.includes(" exec ") ? 1 : 0;
assert.ok(lines > 0);
await sbx.exec("nohup python3 -m http.server 8123 >/dev/null 2>&1 &");
for (let i = 0; !((await sbx.previewUrls())[8123]); i++) {
  assert.ok(i < 400, "the server in the sandbox does not listen");
  await sleep(100);
}

const socket = (path) => {
  const ws = new WebSocket(`${client.apiUrl.replace("http", "ws")}/v1/sandboxes/${sbx.id}/${path}`);
  ws.binaryType = "nodebuffer";
  return new Promise((ok, no) => { ws.on("open", () => ok(ws)); ws.on("error", no); });
};

step("commands over a socket");
{
  const ws = await socket(`exec/ws?access_token=${client.apiKey}`);
  const got = {};
  const done = new Promise((ok) => ws.on("message", (data) => {
    const m = JSON.parse(data);
    const g = (got[m.id] ??= { out: "" });
    if (m.data) g.out += m.data;
    if (m.exit !== undefined) g.exit = m.exit;
    if (m.error !== undefined) g.error = m.error;
    // Who hears of a command's end may use its id at once.
    if (m.id === "a" && m.exit === 4) ws.send(JSON.stringify({ id: "a", cmd: "exit 6" }));
    if (m.id === "slow" && m.data) ws.send(JSON.stringify({ id: "slow", cancel: true }));
    if (g.exit === 6 || g.error !== undefined) g.again = true;
    if (got.a?.again && ["a", "late", "slow"].every((id) => got[id]?.exit !== undefined || got[id]?.error !== undefined)) ok();
  }));
  ws.send(JSON.stringify({ id: "slow", cmd: "echo begun; sleep 60" }));
  ws.send(JSON.stringify({ id: "a", cmd: "echo hello; exit 4" }));
  ws.send(JSON.stringify({ id: "late", cmd: "sleep 60", timeout_seconds: 1 }));
  await done;
  assert.deepEqual([got.a, got.late.exit], [{ out: "hello\n", exit: 6, again: true }, 124]);
  assert.ok(got.slow.error, JSON.stringify(got.slow));
  ws.close();
}

step("a terminal");
{
  const ws = await socket(`exec/pty?rows=10&cols=40&access_token=${client.apiKey}`);
  let shown = "";
  const exit = new Promise((ok) => ws.on("message", (data, binary) => (binary ? (shown += data) : ok(JSON.parse(data)))));
  ws.send(JSON.stringify({ type: "resize", rows: 33, cols: 77 }));
  ws.send(Buffer.from("stty size; exit 9\r"));
  assert.deepEqual(await exit, { type: "exit", code: 9 });
  assert.ok(shown.includes("33 77"), shown);
}

step("errors by class");
await rejects(AuthError, () => new Client({ apiKey: "pds_wrong" }).sandboxes.list());
await rejects(AuthError, () => new Client({ apiKey: "pds_not" }).sandboxes.list());
await rejects(NotFoundError, () => new Client({ apiKey: "pds_bob" }).sandboxes.get(sbx.id));
await rejects(BadRequestError, () => Sandbox.create({ ttlSeconds: -1 }));
await rejects(NotFoundError, () => Sandbox.create({ template: "nothing-like-it" }));
await rejects(ServerError, () => sbx.createCodeContext(), "REPL kernel");
await rejects(ServerError, () => client.volumes.list(), "volumes");

step("kill");
await sbx.kill();
await sbx.kill();
await rejects(NotFoundError, () => sbx.exec("true"));
assert.deepEqual(await client.sandboxes.list(), []);
step("done");
