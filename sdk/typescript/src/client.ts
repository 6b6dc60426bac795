import { fromWire, sandboxInfoOf, snapshotInfoOf, type Labels, type Quota, type Template } from "./models.js";
import { Sandbox, Snapshot, type CreateOptions } from "./sandbox.js";
import { Transport, type Query } from "./transport.js";

export interface ClientOptions {
  /** Else the environment's ASSAY_URL. */
  url?: string;
  /** Else the environment's ASSAY_TOKEN. */
  token?: string;
  /** For the beginning of an answer, in milliseconds; 30,000 if nothing is said. It bounds no command. */
  timeoutMs?: number;
  /** For how long a request that did not get through, or met a full server, is tried again; 60,000 if nothing is said. */
  retryMs?: number;
}

const environment = (name: string): string | undefined => (typeof process === "undefined" ? undefined : process.env[name]);

/**
 * Speaks to one server. Requests that are safe to repeat are tried again; those
 * that make or run something carry a key, so they are done once.
 */
export class Client {
  private readonly transport: Transport;

  constructor(o: ClientOptions = {}) {
    this.transport = new Transport(
      o.url ?? environment("ASSAY_URL") ?? "http://127.0.0.1:8080", o.token ?? environment("ASSAY_TOKEN") ?? "", o.timeoutMs ?? 30_000, o.retryMs ?? 60_000,
    );
  }

  /**
   * Makes a sandbox and resolves when it can be used. Rejects with LimitError for
   * a quota that is used up, UnavailableError when the host stays full,
   * NotFoundError and ConflictError for a template that is not there or not built.
   */
  create(o: CreateOptions = {}): Promise<Sandbox> { return Sandbox.create(this.transport, o); }

  /** A sandbox by its ID, live or ended. */
  async get(id: string): Promise<Sandbox> {
    return new Sandbox(this.transport, sandboxInfoOf(await this.transport.json("GET", `/api/v1/sandboxes/${encodeURIComponent(id)}`)));
  }

  /** Your live sandboxes, newest first; with all also those that ended. */
  async *sandboxes(o: { labels?: Labels; all?: boolean; owner?: string } = {}): AsyncGenerator<Sandbox, void, undefined> {
    for await (const d of this.pages("/api/v1/sandboxes", { state: o.all ? "all" : "live", label: filter(o.labels), owner: o.owner })) {
      yield new Sandbox(this.transport, sandboxInfoOf(d));
    }
  }

  /** Your snapshots, newest first. */
  async *snapshots(o: { labels?: Labels; sandbox?: string } = {}): AsyncGenerator<Snapshot, void, undefined> {
    for await (const d of this.pages("/api/v1/snapshots", { label: filter(o.labels), sandbox: o.sandbox })) {
      yield new Snapshot(this.transport, snapshotInfoOf(d));
    }
  }

  /** A snapshot by its ID. */
  async snapshot(id: string): Promise<Snapshot> {
    return new Snapshot(this.transport, snapshotInfoOf(await this.transport.json("GET", `/api/v1/snapshots/${encodeURIComponent(id)}`)));
  }

  /** What sandboxes can be made of, by name. */
  async templates(): Promise<Template[]> { return fromWire((await this.transport.json("GET", "/api/v1/templates")).items); }

  /** What you may have, and what you have. */
  async quota(): Promise<Quota> { return fromWire(await this.transport.json("GET", "/api/v1/quota")); }

  private async *pages(path: string, query: Query): AsyncGenerator<unknown, void, undefined> {
    for (let cursor: string | undefined; ; ) {
      const page: { items: unknown[]; next?: string } = await this.transport.json("GET", path, { query: { ...query, limit: 200, cursor } });
      yield* page.items;
      if (!page.next) return;
      cursor = page.next;
    }
  }
}

const filter = (labels: Labels | undefined) => Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`);
