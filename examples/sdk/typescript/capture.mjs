// Capture what somebody made, and grade it in a fresh sandbox with tests that
// were never in theirs: nothing that they left running or changed there counts,
// and nothing hidden was ever within their reach.
import { Client } from "assay-sdk";

const client = new Client();
const hidden = { 2024: "True", 1900: "False", 2000: "True" }; // arguments and what must come out; decided here, outside

// Where the person works.
const work = await client.create({ ttlSeconds: 600, labels: { kind: "work" } });
await work.filesystem.write("/home/user/hand-in/leap.py", "import sys\nfrom rule import leap\nprint(leap(int(sys.argv[1])))\n");
await work.filesystem.write("/home/user/hand-in/rule.py", "def leap(y): return y % 4 == 0\n"); // wrong for 1900
// Freeze first, grade later: the archive is what was handed in.
const archive = await work.filesystem.readTar("/home/user/hand-in");
console.log(`captured ${(await work.filesystem.list("/home/user/hand-in")).length} files`);
await work.kill();

// A machine that nobody has had a shell on, with processors of its own.
const fresh = await client.create({ ttlSeconds: 300, dedicated: true, labels: { kind: "grading" } });
try {
  await fresh.filesystem.writeTar("/home/user/hand-in", archive);
  let passed = 0;
  for (const [argument, want] of Object.entries(hidden)) { // one case at a time
    const r = await fresh.exec(["python3", "leap.py", argument], {
      cwd: "/home/user/hand-in", isolated: true, timeoutSeconds: 20,
      limits: { cpuSeconds: 5, memoryBytes: 128 << 20, processes: 16, outputBytes: 64 << 10 },
    });
    const ok = r.exitCode === 0 && r.stdout.trim() === want;
    passed += ok ? 1 : 0;
    console.log(`case ${argument}: ${ok ? "passed" : "failed"} (${r.cause}, ${(r.usage.cpuUs / 1000).toFixed()} ms)`);
  }
  console.log(`hidden tests: ${passed} of ${Object.keys(hidden).length} passed`);
} finally {
  await fresh.kill();
}
console.log("the hidden tests were never in the person's sandbox");
