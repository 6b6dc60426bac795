// Looks at ports of sandboxes in a browser, as somebody does who was sent a link:
// a page that fetches and opens a socket works, knows no cookie of the server,
// and no page of another sandbox gets near it; links that do not work say why.
// Names below preview.localhost lead to the address of the previews.
// Usage: node preview.mjs URL TOKEN PREVIEWS
// Exit code 1 and one line a finding if there is any.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [server, token, previews] = process.argv.slice(2);
const findings = [];
const expect = (ok, text) => ok || findings.push(text);
const patience = 120_000; // on a busy machine, too

async function call(method, path, body) {
  const answer = await fetch(`${server}/api/v1/sandboxes${path}`, {
    method, headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

// What runs in the sandboxes: pages, events, and a socket that says back what it
// hears.
const program = `
import base64, hashlib, http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            return self.socket()
        kind, body = "text/html", PAGE
        if self.path == "/seen":
            kind, body = "text/plain", repr([self.headers.get(n, "") for n in ("Host", "Cookie", "Referer", "Authorization")])
        if self.path == "/events":
            kind, body = "text/event-stream", "data: one\\n\\n"
        body = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "mine=1; Domain=localhost")
        self.end_headers()
        self.wfile.write(body)
    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for n, v in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(n, v)
        self.end_headers()
        self.close_connection = True
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8: return
            n = head[1] & 127
            mask, data = self.rfile.read(4), self.rfile.read(n)
            self.wfile.write(bytes([129, n]) + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
PAGE = """<!doctype html><html lang="en"><title>inside</title><h1>inside</h1><script>
const told = {};
(async () => {
  told.seen = await (await fetch("/seen")).text();
  told.socket = await new Promise((done) => {
    const s = new WebSocket("ws://" + location.host + "/");
    s.onopen = () => s.send("hello");
    s.onmessage = (m) => done(m.data);
    s.onclose = () => done("closed");
  });
  told.event = await new Promise((done) => { const e = new EventSource("/events"); e.onmessage = (m) => { e.close(); done(m.data); }; });
  told.cookie = document.cookie;
  document.body.dataset.told = JSON.stringify(told);
})();
</script>"""
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
`;

async function sandbox() {
  const { id } = await call("POST", "", { template: "base", ttl_seconds: 1200 });
  const answer = await fetch(`${server}/api/v1/sandboxes/${id}/files?path=/home/user/server.py`, {
    method: "PUT", headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/octet-stream" }, body: program,
  });
  if (!answer.ok) throw new Error(await answer.text());
  return id;
}
const listen = (id, port) => call("POST", `/${id}/exec`, { command: `python3 server.py ${port} >/dev/null 2>&1 &`, cwd: "/home/user", background: true });
const link = async (id, port, more) => (await call("POST", `/${id}/previews`, { port, ...more })).url;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", `--host-resolver-rules=MAP *.preview.localhost ${previews}`] });
try {
  const context = await browser.newContext();
  // Somebody is signed in, under each name that this host has.
  const api = new URL(server);
  await context.addCookies(["127.0.0.1", "localhost"].map((name) => ({ name: "assay", value: "a-session-of-the-server", url: `http://${name}:${api.port}/` })));
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const [one, two] = [await sandbox(), await sandbox()];
  await Promise.all([listen(one, 8000), listen(two, 8000)]);

  const address = await link(one, 8000, { path: "/start?x=1" });
  await page.goto(address);
  // It may look by itself until the program listens.
  await page.waitForSelector("body[data-told]");
  expect(new URL(page.url()).pathname + new URL(page.url()).search === "/start?x=1", `the link led to ${page.url()}`);
  const told = JSON.parse(await page.getAttribute("body", "data-told"));
  expect(told.socket === "hello", `the socket said ${told.socket}`);
  expect(told.event === "one", `the event was ${told.event}`);
  expect(told.cookie === "mine=1", `the page knows the cookies ${told.cookie}`);
  expect(told.seen.includes("localhost:8000") && told.seen.includes("mine=1"), `the program saw ${told.seen}`);
  expect(!/assay/.test(told.seen), `the program saw ${told.seen}`);
  const cookies = await context.cookies();
  expect(cookies.every((c) => c.name !== "mine" || c.domain === new URL(address).hostname), `cookies reach too far: ${JSON.stringify(cookies)}`);
  const proof = cookies.find((c) => c.name === "assay-preview");
  expect(proof?.httpOnly && proof.sameSite === "Lax" && proof.domain === new URL(address).hostname && proof.expires > 0, `the cookie is ${JSON.stringify(proof)}`);

  // The other sandbox's page, in the same browser, which may see both.
  const beside = await context.newPage();
  beside.setDefaultTimeout(patience);
  await beside.goto(await link(two, 8000));
  await beside.waitForSelector("body[data-told]");
  const reached = await beside.evaluate(async (host) => {
    const socket = await new Promise((done) => {
      const s = new WebSocket(`ws://${host}/`);
      s.onopen = () => done("open");
      s.onerror = () => done("refused");
    });
    const read = await fetch(`http://${host}/seen`, { credentials: "include" }).then((r) => r.status, () => "refused");
    const script = await new Promise((done) => {
      const s = document.createElement("script");
      s.src = `http://${host}/seen`;
      s.onload = () => done("loaded");
      s.onerror = () => done("refused");
      document.body.append(s);
    });
    return { socket, read, script };
  }, new URL(address).host);
  expect(Object.values(reached).every((r) => r === "refused"), `another sandbox's page reached ${JSON.stringify(reached)}`);
  // It can set cookies for the names above it, also one that is called as ours.
  await beside.evaluate(() => { document.cookie = `assay-preview=junk; path=/; domain=${location.hostname.split(".").slice(1).join(".")}`; });
  await page.goto(new URL("/again", address).href);
  await page.waitForSelector("body[data-told]");

  const ofServer = await beside.evaluate(async (url) => fetch(`${url}/api/v1/me`, { credentials: "include" }).then((r) => r.status, () => "refused"), server);
  expect(ofServer === "refused", `a sandbox's page read the API: ${ofServer}`);

  // A link whose program begins later.
  await page.goto(await link(one, 8001));
  expect((await page.textContent("h1")).includes("Nobody listens"), `of a deaf port: ${await page.textContent("h1")}`);
  await page.evaluate(axe);
  for (const v of (await page.evaluate(() => globalThis.axe.run())).violations) findings.push(`the page of a refusal: ${v.help}`);
  await listen(one, 8001);
  await page.waitForSelector("body[data-told]");

  const says = async (url, status, text, who = page) => {
    const answer = await who.goto(url);
    const title = await who.textContent("h1");
    expect(answer.status() === status && title.includes(text), `${text}: ${answer.status()} ${title}`);
  };
  await says(address.replace("8000-", "8002-"), 403, "does not work here");
  const stranger = await (await browser.newContext()).newPage();
  stranger.setDefaultTimeout(patience);
  await says(new URL("/", address).href, 401, "A link is needed", stranger);
  const short = await link(one, 8000, { ttl_seconds: 1 });
  for (const end = Date.now() + patience; (await page.goto(short)).status() !== 410 && Date.now() < end;);
  await says(short, 410, "has expired");
  await call("DELETE", `/${one}`);
  await says(address, 410, "has ended");
  await call("DELETE", `/${two}`);
} catch (error) {
  findings.push(String(error.stack ?? error));
} finally {
  await browser.close();
}
for (const f of findings) console.log(f);
process.exitCode = findings.length > 0 ? 1 : 0;
