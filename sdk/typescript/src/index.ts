/** Run code nobody has reviewed, in throwaway sandboxes of an Assay server. */
export * from "./errors.js";
export { Client, type ClientOptions } from "./client.js";
export { Filesystem, type WriteOptions } from "./filesystem.js";
export type {
  Cause, ExecResult, ExecUsage, FileEvent, FileInfo, Labels, Limits, Quota, QuotaAmounts, SandboxEvent, SandboxInfo, SandboxUsage, Shape,
  SnapshotInfo, Template,
} from "./models.js";
export { Sandbox, Snapshot, Watch, type Command, type CreateOptions, type ExecOptions, type Forked, type Network, type NetworkPolicy, type Output, type Preview, type Terms } from "./sandbox.js";
export { Terminal, type TerminalOptions } from "./terminal.js";
