// Prepare a question once, as a snapshot; give each candidate a sandbox of it in
// an instant; record what happens to the files as a timeline.
import { Client } from "assay-sdk";

const client = new Client();

// What every candidate finds: files, and whatever is installed and running.
const prepare = await client.create({ ttlSeconds: 600 });
await prepare.filesystem.write("/home/user/question/README.md", "# Leap years\n\nWrite leap(year) in solution.py.\n");
const question = await prepare.snapshot({ keepSeconds: 3600, name: "leap", labels: { question: "leap" } });
await prepare.kill();

const candidate = await question.create({ ttlSeconds: 600, labels: { candidate: "c-17" } });
console.log(`made of the question's snapshot in ${candidate.info.bootMs.toFixed()} ms`);

// The watch begins before this resolves: nothing is missed. Events wait in the
// sandbox for whoever reads them; numbers have no gaps, so that a recorder that was
// away goes on behind the last.
const watch = await candidate.watch("/home/user/question", { exclude: [".git/**", "__pycache__/**"], id: "timeline" });
const changes = watch[Symbol.asyncIterator]();
const timeline = [];
const recordUntil = async (op, path) => {
  for (let next = await changes.next(); !next.done; next = await changes.next()) {
    const change = next.value;
    timeline.push({ seq: change.seq, at: change.at, op: change.op, path: change.path });
    if (change.op === op && change.path === path) return;
  }
};

// The candidate works.
const at = "/home/user/question";
await candidate.filesystem.write(`${at}/solution.py`, "def leap(y): return y % 4 == 0\n");
await recordUntil("created", "solution.py");
await candidate.exec("echo 'assert leap(2024)' >> solution.py", { cwd: at });
await recordUntil("modified", "solution.py");
await candidate.filesystem.write(`${at}/notes.md`, "centuries!\n");
await recordUntil("created", "notes.md");

for (const line of timeline) console.log(line.op, line.path, JSON.stringify(line));
await watch.close();
await candidate.kill();
await question.delete();
