// Start a sandbox for an interview and run code under three nested deadlines:
// the command's, the call's and the sandbox's own. Each holds if the inner one
// fails. Needs ASSAY_URL and ASSAY_TOKEN.
import { Client } from "assay-sdk";

// The outermost deadline: an hour and a half, whatever happens; and a sandbox that
// nobody has touched for 15 minutes is not needed any more.
const sbx = await new Client().create({ template: "base", ttlSeconds: 5400, idleSeconds: 900, labels: { kind: "interview", candidate: "c-17" } });
try {
  await sbx.filesystem.write("/home/user/main.py", 'print("hello from the interview")\n');
  const run = await sbx.follow("python3 main.py", { stdout: (text) => process.stdout.write(text) }, { timeoutSeconds: 10 });
  console.log(`ended with ${run.exitCode} after ${run.durationMs.toFixed()} ms`);

  // The middle deadline: the server ends a command that its own deadline did not.
  const endless = await sbx.exec("while true; do :; done", { timeoutSeconds: 2 });
  console.log(`stopped after ${(endless.durationMs / 1000).toFixed()} s: ${endless.cause}, exit code ${endless.exitCode}`);

  // The innermost: what the program itself may use.
  const greedy = await sbx.exec(["python3", "-c", "b = bytearray(10**9)"], {
    timeoutSeconds: 10, limits: { cpuSeconds: 5, memoryBytes: 128 << 20, processes: 16 },
  });
  console.log(`stopped: ${greedy.cause}, at ${greedy.usage.memoryPeakBytes >> 20} MiB`);

  await sbx.keepAlive(5400); // the interview takes longer
  process.stdout.write((await sbx.exec("echo and the sandbox goes on")).stdout);
} finally {
  await sbx.kill();
}
