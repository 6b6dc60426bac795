import { ConnectionFailed, errorOfEvent } from "./errors.js";
import { execResultOf, type ExecResult } from "./models.js";
import type { Transport } from "./transport.js";

export interface TerminalOptions {
  rows?: number;
  cols?: number;
  cwd?: string;
  user?: "user" | "root";
  /** A line for the shell; a login shell if nothing is said. */
  command?: string;
  /** An ID of your own: the same one gives the same terminal. */
  id?: string;
  /** The terminal must be there already. */
  attach?: boolean;
}

/** A terminal in a sandbox, over a WebSocket. It goes on when it is closed here, until its command ends. */
export class Terminal {
  /** Called with what the terminal shows. Set it at once after opening. */
  onOutput: (data: Uint8Array) => void = () => undefined;
  /** How its command ended; rejects when the connection breaks before. */
  readonly ended: Promise<ExecResult>;

  private constructor(readonly id: string, private readonly socket: WebSocket, ended: Promise<ExecResult>) {
    this.ended = ended;
  }

  static open(transport: Transport, path: string, o: TerminalOptions): Promise<Terminal> {
    const url = transport.href(`${path}/terminal`, {
      rows: o.rows, cols: o.cols, cwd: o.cwd, user: o.user, command: o.command, terminal: o.id, attach: o.attach ? 1 : undefined,
    });
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (typeof WebSocket === "undefined") throw new ConnectionFailed("this platform has no WebSocket", { hint: "use Node 22, or node --experimental-websocket" });
    // Browsers cannot send headers; in the URL the token would be logged.
    const protocols = ["assay.terminal", ...(transport.token ? [`bearer.${transport.token}`] : [])];
    const socket = new WebSocket(url, protocols);
    socket.binaryType = "arraybuffer";
    return new Promise((ready, refused) => {
      let terminal: Terminal | undefined;
      let end!: (r: ExecResult) => void, broke!: (e: unknown) => void;
      const ended = new Promise<ExecResult>((ok, no) => { end = ok; broke = no; });
      ended.catch(() => undefined); // nobody need wait for it
      // What comes together with "ready" waits until whoever opened the terminal
      // has had the time to set onOutput.
      let held: (() => void)[] | undefined;
      const inTurn = (what: () => void) => (held ? void held.push(what) : what());
      socket.onmessage = (m: MessageEvent) => inTurn(() => took(m));
      const took = (m: MessageEvent) => {
        if (typeof m.data !== "string") {
          terminal?.onOutput(new Uint8Array(m.data as ArrayBuffer));
          return;
        }
        const f = JSON.parse(m.data) as { type: string; id?: string; result?: unknown; error?: unknown };
        if (f.type === "ready") {
          held = [];
          setTimeout(() => {
            const all = held ?? [];
            held = undefined;
            for (const what of all) what();
          });
          ready((terminal = new Terminal(f.id ?? "", socket, ended)));
        }
        if (f.type === "exit") end(execResultOf(f.result));
        if (f.type === "error") broke(errorOfEvent(f.error));
      };
      socket.onclose = () => inTurn(() => {
        const e = new ConnectionFailed("the terminal's connection is closed");
        refused(e);
        broke(e);
      });
    });
  }

  /** Types input. */
  write(data: string | Uint8Array): void { this.socket.send(typeof data === "string" ? new TextEncoder().encode(data) : data); }

  resize(rows: number, cols: number): void { this.socket.send(JSON.stringify({ type: "resize", rows, cols })); }

  /** Detaches; the terminal and its command go on. */
  close(): void { this.socket.close(); }
}
