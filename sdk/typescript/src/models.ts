/** Notes of the owner, never interpreted; at most 32. */
export type Labels = Record<string, string>;

/** Upper bounds of one command; what is left out is the machine's own bound. */
export interface Limits {
  /** Processor time of the whole process tree, in seconds. */
  cpuSeconds?: number;
  /** What the process tree holds at one moment. */
  memoryBytes?: number;
  /** Processes and threads alive at one moment. */
  processes?: number;
  /** Of each of stdout and stderr: 1 MiB if nothing is said, 4 MiB at most, 64 MiB for a stream. */
  outputBytes?: number;
  fileSizeBytes?: number;
  diskBytes?: number;
  stackBytes?: number;
  openFiles?: number;
}

export type Cause =
  | "exited" | "signaled" | "cpu_limit" | "wall_limit" | "memory_limit" | "output_limit" | "process_limit" | "disk_limit" | "killed" | "machine_lost";

/** What was measured of a command. */
export interface ExecUsage {
  /** The time to hold against a limit; the host's count in a dedicated sandbox. */
  cpuUs: number;
  cpuUserUs: number;
  cpuSystemUs: number;
  wallUs: number;
  memoryPeakBytes: number;
  processesPeak: number;
  diskBytes: number;
}

/** How a command ended, and what it printed. */
export interface ExecResult {
  stdout: string;
  stderr: string;
  /** The bytes, where they are no UTF-8. */
  stdoutBytes: Uint8Array;
  stderrBytes: Uint8Array;
  /** The program's own; 124 at the timeout, 128 + the signal's number, 137 at other limits. */
  exitCode: number;
  /** The signal that ended it, or 0. */
  signal: number;
  /** Why it ended, exactly one. */
  cause: Cause;
  timedOut: boolean;
  durationMs: number;
  /** Some of it was dropped. */
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
  usage: ExecUsage;
}

export interface FileInfo {
  name: string;
  type: "file" | "dir" | "symlink" | "other";
  sizeBytes: number;
  /** Permission bits in octal: "644". */
  mode: string;
  modifiedAt: Date;
  linkTarget?: string;
  /** Of a file that was just written. */
  sha256?: string;
}

/** One change of a path. overflow: events were lost, look at the files anew. */
export interface FileEvent {
  seq: number;
  op: "created" | "modified" | "removed" | "overflow";
  path: string;
  type?: string;
  count: number;
  at: Date;
  reason?: string;
}

export interface SandboxEvent { number: number; at: Date; kind: string; detail: Record<string, unknown> }

export interface Shape { vcpus: number; memoryBytes: number; diskBytes: number; processes: number }

/** What a sandbox has used, as it is accounted for. */
export interface SandboxUsage { cpuUs: number; memoryGibSeconds: number; snapshotBytes: number }

export interface SandboxInfo {
  id: string;
  owner: string;
  node: string;
  name: string;
  labels: Labels;
  state: "running" | "paused" | "ended";
  template: string;
  templateDigest: string;
  /** The snapshot that it was made of, or "". */
  snapshot: string;
  /** The sandbox that it was forked from, or "". */
  parent: string;
  bootMode: string;
  bootMs: number;
  shape: Shape;
  dedicated: boolean;
  /** Outlives the server's process. */
  persistent: boolean;
  createdAt: Date;
  /** Its hard end. */
  deadlineAt: Date;
  /** It ends after so long without a call; 0 is never. */
  idleSeconds: number;
  endedAt?: Date;
  endReason: string;
  endCause: string;
  usage: SandboxUsage;
}

export interface SnapshotInfo {
  id: string;
  owner: string;
  node: string;
  name: string;
  labels: Labels;
  sandbox: string;
  template: string;
  shape: Shape;
  sizeBytes: number;
  createdAt: Date;
  /** When it is deleted; undefined is never. */
  expiresAt?: Date;
}

export interface Template { name: string; built: boolean; description?: string; languages?: string[]; shape?: Shape; problem?: string }

/** Amounts of what a quota bounds; as a limit, 0 is no bound. */
export interface QuotaAmounts { sandboxes: number; cpuSecondsToday: number; diskBytes: number; snapshots: number; snapshotBytes: number }
export interface Quota { limits: QuotaAmounts; used: QuotaAmounts }

const camel = (name: string) => name.replace(/_([a-z0-9])/g, (_, c: string) => c.toUpperCase());

/** Names in camel case and instants as Dates. Labels and details of events stay as they are. */
export function fromWire(v: any): any {
  if (Array.isArray(v)) return v.map(fromWire);
  if (v === null || typeof v !== "object") return v;
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(v)) {
    const keep = name === "labels" || name === "detail";
    out[camel(name)] = keep ? value : (name === "at" || name.endsWith("_at")) && typeof value === "string" ? new Date(value) : fromWire(value);
  }
  return out;
}

/** Names in snake case, without what is undefined. */
export function toWire(o: object): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(o)) {
    if (value !== undefined) out[name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)] = value;
  }
  return out;
}

export const fromBase64 = (text: string) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

export function execResultOf(d: any): ExecResult {
  const { stdoutBase64, stderrBase64, durationUs, ...rest } = fromWire(d);
  const bytes = (coded: string | undefined, text: string) => (coded ? fromBase64(coded) : new TextEncoder().encode(text));
  return {
    ...rest, signal: rest.signal ?? 0, durationMs: durationUs / 1000,
    stdoutBytes: bytes(stdoutBase64, rest.stdout), stderrBytes: bytes(stderrBase64, rest.stderr),
  };
}

export function sandboxInfoOf(d: any): SandboxInfo {
  const { bootUs, ...rest } = fromWire(d);
  return { name: "", labels: {}, snapshot: "", parent: "", dedicated: false, persistent: false, idleSeconds: 0, endReason: "", endCause: "", ...rest, bootMs: bootUs / 1000 };
}

export const snapshotInfoOf = (d: any): SnapshotInfo => ({ name: "", labels: {}, ...fromWire(d) });
