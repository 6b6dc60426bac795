"""Start a sandbox for an interview and run code under three nested deadlines:
the command's, the call's and the sandbox's own. Each holds if the inner one
fails. Needs ASSAY_URL and ASSAY_TOKEN."""

from assay import Limits, Sandbox

# The outermost deadline: an hour and a half, whatever happens; and a sandbox that
# nobody has touched for 15 minutes is not needed any more.
with Sandbox.create(template="base", ttl_seconds=5400, idle_seconds=900, labels={"kind": "interview", "candidate": "c-17"}) as sbx:
    sbx.filesystem.write("/home/user/main.py", 'print("hello from the interview")\n')
    for piece in (out := sbx.stream("python3 main.py", timeout_seconds=10)):
        print(piece.text, end="")
    print(f"ended with {out.result.exit_code} after {out.result.duration_ms:.0f} ms")

    # The middle deadline: the server ends a command that its own deadline did not.
    endless = sbx.exec("while true; do :; done", timeout_seconds=2)
    print(f"stopped after {endless.duration_ms / 1000:.0f} s: {endless.cause}, exit code {endless.exit_code}")

    # The innermost: what the program itself may use.
    greedy = sbx.exec(["python3", "-c", "b = bytearray(10**9)"], timeout_seconds=10, limits=Limits(cpu_seconds=5, memory_bytes=128 << 20, processes=16))
    print(f"stopped: {greedy.cause}, at {greedy.usage.memory_peak_bytes >> 20} MiB")

    sbx.keep_alive(ttl_seconds=5400)  # the interview takes longer
    print(sbx.exec("echo and the sandbox goes on").stdout, end="")
