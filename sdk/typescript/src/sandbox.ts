import { CommandFailed, ConnectionFailed, errorOfEvent, ForkFailed } from "./errors.js";
import { Filesystem } from "./filesystem.js";
import {
  execResultOf, fromBase64, fromWire, sandboxInfoOf, snapshotInfoOf, toBase64, toWire,
  type ExecResult, type FileEvent, type Labels, type Limits, type SandboxEvent, type SandboxInfo, type SnapshotInfo,
} from "./models.js";
import { Terminal, type TerminalOptions } from "./terminal.js";
import type { Transport } from "./transport.js";

/** How long a sandbox may live, and what is noted of it. */
export interface Terms {
  /** From now to its hard end; an hour if nothing is said. */
  ttlSeconds?: number;
  /** It ends after so long without a call; never if nothing is said. */
  idleSeconds?: number;
  name?: string;
  labels?: Labels;
  /** The labels, by the name that other systems give them. */
  metadata?: Labels;
}

export interface CreateOptions extends Terms {
  /** What it is made of: "base" if neither it nor snapshot is given. */
  template?: string;
  /** The ID of a snapshot. */
  snapshot?: string;
  /** Whole processors of the host for it alone. */
  dedicated?: boolean;
  /** Outlives the server's process, which adopts it when it starts again; it has no network then. */
  persistent?: boolean;
  /** What it may reach; nothing said is no network at all, and none later. Of a snapshot: no more than its sandbox had. */
  network?: NetworkPolicy;
}

export interface NetworkPolicy {
  /** Names, through a proxy: "web.example.org", "*.example.org:443". An empty list is a network that is shut. */
  allow: string[];
  /** "setup": shut when the first terminal is opened, or by endSetup(). */
  phase?: "always" | "setup";
}

export interface Network {
  /** Not there without a network. */
  policy?: NetworkPolicy;
  attempts: number;
  sentBytes: number;
  receivedBytes: number;
}

/** A link that shows a port of a sandbox to whoever has it. */
export interface Preview { url: string; port: number; expiresAt: Date }

export interface ExecOptions {
  /** Ends it with exitCode 124 and what it printed so far; the sandbox's own deadline if nothing is said. */
  timeoutSeconds?: number;
  limits?: Limits;
  cwd?: string;
  /** Added to a small fixed environment. */
  env?: Record<string, string>;
  stdin?: string | Uint8Array;
  user?: "user" | "root";
  /** Processes and a /tmp of its own, and the rest read-only. */
  isolated?: boolean;
  /** What it started may go on after it. */
  background?: boolean;
  /** End it at limits.outputBytes; otherwise the middle of its output is dropped. */
  stopAtOutput?: boolean;
  signal?: AbortSignal;
}

/** A line for "sh -c", or a program with its arguments, which no shell sees. */
export type Command = string | readonly string[];

export interface Output { stream: "stdout" | "stderr"; data: Uint8Array; text: string }

function terms(o: Terms): Record<string, unknown> {
  const { metadata, labels, ttlSeconds, idleSeconds, name } = o;
  return toWire({ ttlSeconds, idleSeconds, name, labels: labels ?? metadata });
}

function execBody(command: Command, o: ExecOptions): Record<string, unknown> {
  const { limits, stdin, signal: _, ...rest } = o;
  return {
    ...toWire(rest), ...(typeof command === "string" ? { command } : { argv: command }), ...(limits ? { limits: toWire(limits) } : {}),
    ...(typeof stdin === "string" ? { stdin } : stdin ? { stdin_base64: toBase64(stdin) } : {}),
    ...(o.env ? { env: o.env } : {}),
  };
}

/** One throwaway machine. `await using` ends it at the end of a block. */
export class Sandbox {
  readonly filesystem: Filesystem;
  private readonly path: string;

  constructor(private readonly transport: Transport, public info: SandboxInfo) {
    this.path = `/api/v1/sandboxes/${encodeURIComponent(info.id)}`;
    this.filesystem = new Filesystem(transport, this.path);
  }

  get id(): string { return this.info.id; }
  get state(): SandboxInfo["state"] { return this.info.state; }
  get labels(): Labels { return this.info.labels; }
  get files(): Filesystem { return this.filesystem; }

  static async create(transport: Transport, o: CreateOptions = {}): Promise<Sandbox> {
    const json = { ...terms(o), ...toWire({ template: o.template ?? (o.snapshot ? undefined : "base"), snapshot: o.snapshot, dedicated: o.dedicated, persistent: o.persistent, network: o.network }) };
    return new Sandbox(transport, sandboxInfoOf(await transport.json("POST", "/api/v1/sandboxes", { json, once: true })));
  }

  /** Asks for its present state. */
  async refresh(): Promise<this> {
    this.info = sandboxInfoOf(await this.transport.json("GET", this.path));
    return this;
  }

  /**
   * Runs a command and waits for its end. How it ended is the result; check
   * throws CommandFailed unless it ended with 0. If the connection breaks, the
   * same command is asked for again: it never runs twice.
   */
  async exec(command: Command, o: ExecOptions & { check?: boolean } = {}): Promise<ExecResult> {
    const { check, ...options } = o;
    const result = execResultOf(await this.transport.json("POST", `${this.path}/exec`, {
      json: execBody(command, options), once: true, ...(o.signal ? { signal: o.signal } : {}),
    }));
    if (check && (result.cause !== "exited" || result.exitCode !== 0)) {
      throw new CommandFailed(`the command ended with ${result.exitCode} (${result.cause})`, result);
    }
    return result;
  }

  /**
   * Runs a command and gives what it prints while it runs; the generator returns
   * the result, without output. Leaving the loop kills the command.
   */
  async *stream(command: Command, o: ExecOptions = {}): AsyncGenerator<Output, ExecResult, undefined> {
    const decoder = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    const events = this.transport.events("POST", `${this.path}/exec/stream`, { json: execBody(command, o), ...(o.signal ? { signal: o.signal } : {}) });
    for await (const { name, data } of events) {
      const d = data as { chunk?: string; base64?: string };
      if (name === "stdout" || name === "stderr") {
        const bytes = d.base64 ? fromBase64(d.base64) : new TextEncoder().encode(d.chunk ?? "");
        yield { stream: name, data: bytes, text: decoder[name].decode(bytes, { stream: true }) };
      } else if (name === "exit") {
        return execResultOf(data);
      } else if (name === "error") {
        throw errorOfEvent(data);
      }
    }
    throw new ConnectionFailed("the stream ended before the command did: how it ended is not known");
  }

  /** Runs a command, hands on what it prints, and gives the result without output. */
  async follow(command: Command, on: { stdout?: (text: string) => void; stderr?: (text: string) => void }, o: ExecOptions = {}): Promise<ExecResult> {
    const stream = this.stream(command, o);
    for (;;) {
      const next = await stream.next();
      if (next.done) return next.value;
      on[next.value.stream]?.(next.value.text);
    }
  }

  /**
   * Follows changes below a directory. Awaiting it means that the watch has
   * begun: from then on nothing is missed. exclude are patterns such as
   * "node_modules/**". With an ID of your own the watch goes on without a reader,
   * and another begins behind the event number after.
   */
  async watch(path: string, o: { exclude?: readonly string[]; id?: string; after?: number; signal?: AbortSignal } = {}): Promise<Watch> {
    const events = this.transport.events("GET", `${this.path}/watch`, {
      query: { path, exclude: o.exclude, watch: o.id, after: o.after }, ...(o.signal ? { signal: o.signal } : {}),
    });
    const first = await events.next();
    if (first.done) throw new ConnectionFailed("the watch did not begin");
    if (first.value.name === "error") throw errorOfEvent(first.value.data);
    return new Watch((first.value.data as { id: string }).id, events);
  }

  /** Opens a terminal, or attaches to the one with options.id. */
  terminal(o: TerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.transport, this.path, o);
  }

  /** Freezes memory and disk, and lets the sandbox go on. keepSeconds: deleted after so long; never if nothing is said. */
  async snapshot(o: { keepSeconds?: number; name?: string; labels?: Labels } = {}): Promise<Snapshot> {
    const json = toWire(o);
    return new Snapshot(this.transport, snapshotInfoOf(await this.transport.json("POST", `${this.path}/snapshots`, { json, once: true })));
  }

  /** Makes 1 to 64 children, memory and disk, while it goes on. Throws ForkFailed only if there is no child at all. */
  async fork(o: Terms & { count?: number } = {}): Promise<Forked> {
    return forkedOf(this.transport, await this.transport.json("POST", `${this.path}/fork`, { json: { count: o.count ?? 1, ...terms(o) }, once: true }));
  }

  /** What it may reach, and what went through. */
  async network(): Promise<Network> { return fromWire(await this.transport.json("GET", `${this.path}/network`)) as any; }

  /** Changes what it may reach, at once; ConflictError for one that was made without a network. */
  async setNetwork(policy: NetworkPolicy): Promise<Network> {
    return fromWire(await this.transport.json("PUT", `${this.path}/network`, { json: policy })) as any;
  }

  /** Lets it reach nothing; what is open is cut. */
  async networkOff(): Promise<Network> { return fromWire(await this.transport.json("DELETE", `${this.path}/network`)) as any; }

  /** Shuts what it could reach for its setup only. */
  async endSetup(): Promise<Network> { return fromWire(await this.transport.json("POST", `${this.path}/network/end-setup`)) as any; }

  /** Stops all its processes; its deadline goes on. */
  async pause(): Promise<void> { this.info = sandboxInfoOf(await this.transport.json("POST", `${this.path}/pause`)); }

  /** Lets it go on after pause(). */
  async resume(): Promise<void> { this.info = sandboxInfoOf(await this.transport.json("POST", `${this.path}/resume`)); }

  /** Moves its hard end to so many seconds from now. */
  async extend(ttlSeconds: number): Promise<void> {
    this.info = sandboxInfoOf(await this.transport.json("PATCH", this.path, { json: { ttl_seconds: ttlSeconds } }));
  }

  /** Counts as a use for the idle limit, and moves the hard end if asked. */
  async keepAlive(ttlSeconds?: number): Promise<void> {
    if (ttlSeconds !== undefined) await this.extend(ttlSeconds);
    await this.transport.json("POST", `${this.path}/touch`);
  }

  /** Ends it in any state; ending one that has ended is fine. */
  async kill(): Promise<void> {
    await this.transport.json("DELETE", this.path);
    this.info.state = "ended";
  }

  /** Its log, oldest first; kept after its end. */
  async events(): Promise<SandboxEvent[]> {
    return ((await this.transport.json("GET", `${this.path}/events`)).items as any[]).map((e) => ({ detail: {}, ...fromWire(e) }));
  }

  /** Where a server on the sandbox's loopback is reached, with the token as for all requests. */
  portUrl(port: number, path = "/"): URL {
    return this.transport.href(`${this.path}/ports/${port}/${path.replace(/^\/+/, "")}`);
  }

  /**
   * Makes a link that shows a port in a browser, on an origin of its own. Whoever
   * has it may see the port until it expires: an hour if nothing is said. The
   * server inside may begin to listen later.
   */
  async preview(port: number, o: { ttlSeconds?: number; path?: string } = {}): Promise<Preview> {
    return fromWire(await this.transport.json("POST", `${this.path}/previews`, { json: toWire({ port, ...o }) })) as any;
  }

  /** Takes back all links to its ports, at once; pages that are open end. */
  async revokePreviews(): Promise<void> { await this.transport.json("DELETE", `${this.path}/previews`); }

  async [Symbol.asyncDispose](): Promise<void> { await this.kill(); }
}

/** The children of a fork. problems says why others could not be made. */
export interface Forked { sandboxes: Sandbox[]; problems: string[] }

function forkedOf(transport: Transport, d: any): Forked {
  const forked: Forked = { sandboxes: [], problems: [] };
  for (const child of d.children) {
    if (child.sandbox) forked.sandboxes.push(new Sandbox(transport, sandboxInfoOf(child.sandbox)));
    else forked.problems.push(child.problem ?? "");
  }
  if (forked.sandboxes.length === 0) throw new ForkFailed(forked.problems.join("; ") || "no child was made", { code: "sandbox.fork_failed" });
  return forked;
}

/** The frozen state of a sandbox. */
export class Snapshot {
  private readonly path: string;

  constructor(private readonly transport: Transport, public readonly info: SnapshotInfo) {
    this.path = `/api/v1/snapshots/${encodeURIComponent(info.id)}`;
  }

  get id(): string { return this.info.id; }

  /** Makes one sandbox of it. */
  create(o: Terms = {}): Promise<Sandbox> { return Sandbox.create(this.transport, { ...o, snapshot: this.id }); }

  /** Makes 1 to 64 sandboxes of it; see Sandbox.fork. */
  async fork(o: Terms & { count?: number } = {}): Promise<Forked> {
    return forkedOf(this.transport, await this.transport.json("POST", `${this.path}/fork`, { json: { count: o.count ?? 1, ...terms(o) }, once: true }));
  }

  /** Deletes it. Sandboxes made of it go on. */
  async delete(): Promise<void> { await this.transport.json("DELETE", this.path); }
}

/** Changes below a directory: a loop over it ends with ConflictError when the sandbox ends. */
export class Watch implements AsyncIterable<FileEvent> {
  constructor(readonly id: string, private readonly events: AsyncGenerator<{ name: string; data: unknown }, void, undefined>) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<FileEvent, void, undefined> {
    for await (const { name, data } of this.events) {
      if (name === "error") throw errorOfEvent(data);
      yield fromWire(data);
    }
  }

  /** Ends the reader, and a watch without an ID of its own. */
  async close(): Promise<void> { await this.events.return(); }
}
