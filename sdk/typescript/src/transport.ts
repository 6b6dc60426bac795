import { AssayError, ConnectionFailed, errorOf } from "./errors.js";

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;
export interface Event { name: string; data: unknown }

export interface RequestOptions {
  query?: Query;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is, of this content type. */
  body?: BodyInit;
  contentType?: string;
  /** Give the request a key, with which it can be tried again and is done once. */
  once?: boolean;
  signal?: AbortSignal;
}

const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** Sends requests to one server. */
export class Transport {
  readonly url: URL;

  constructor(url: string, readonly token: string, private readonly timeoutMs: number, private readonly retryMs: number) {
    this.url = new URL(url.endsWith("/") ? url : `${url}/`);
    if (this.url.protocol !== "http:" && this.url.protocol !== "https:") {
      throw new TypeError(`the server's URL must begin with http:// or https://, not ${url}`);
    }
  }

  /** Sends a request and gives the decoded JSON of the answer; undefined for 204. */
  async json(method: string, path: string, o: RequestOptions = {}): Promise<any> {
    const again = o.once === true || method === "GET" || method === "DELETE";
    const headers: Record<string, string> = o.once ? { "idempotency-key": crypto.randomUUID() } : {};
    const end = Date.now() + this.retryMs;
    for (let pause = 250; ; pause = Math.min(pause * 2, 5000)) {
      try {
        const { response, read } = await this.send(method, path, o, headers);
        const text = await read(response.text());
        return text.trim() ? JSON.parse(text) : undefined;
      } catch (e) {
        if (!(e instanceof AssayError) || o.signal?.aborted) throw e;
        const retry = e instanceof ConnectionFailed || e.status === 503 || (e.status === 429 && e.retryAfter > 0);
        const wait = Math.max(pause * (0.5 + Math.random()), e.retryAfter * 1000);
        if (!again || !retry || Date.now() + wait > end) throw e;
        await sleep(wait);
      }
    }
  }

  /** Sends a request, once, and gives the bytes of the answer. */
  async bytes(method: string, path: string, o: RequestOptions = {}): Promise<Uint8Array> {
    const { response, read } = await this.send(method, path, o, {});
    return new Uint8Array(await read(response.arrayBuffer()));
  }

  /** Sends a request, once, and gives the answer's stream. */
  async stream(method: string, path: string, o: RequestOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { response, done } = await this.send(method, path, o, {});
    done();
    if (!response.body) throw new ConnectionFailed("the answer has no body");
    return response.body;
  }

  /** Sends a request, once, and gives its server-sent events. Leaving the loop
   * closes the connection. */
  async *events(method: string, path: string, o: RequestOptions = {}): AsyncGenerator<Event, void, undefined> {
    const body = await this.stream(method, path, o);
    yield* readEvents(body);
  }

  href(path: string, query: Query = {}): URL {
    const url = new URL(path.replace(/^\/+/, ""), this.url);
    for (const [name, value] of Object.entries(query)) {
      if (value === undefined) continue;
      for (const v of Array.isArray(value) ? value : [value]) url.searchParams.append(name, String(v));
    }
    return url;
  }

  private async send(method: string, path: string, o: RequestOptions, more: Record<string, string>) {
    const headers: Record<string, string> = { accept: "application/json, */*", ...more };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const init: RequestInit & { duplex?: "half" } = { method, headers, redirect: "error" };
    if (o.json !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(o.json);
    } else if (o.body !== undefined) {
      headers["content-type"] = o.contentType ?? "application/octet-stream";
      init.body = o.body;
      if (o.body instanceof ReadableStream) init.duplex = "half";
    }
    // The time-out is for the beginning of the answer: how long a command runs is
    // the server's business, and it shows every ten seconds that it lives.
    const gaveUp = new AbortController();
    init.signal = o.signal ? AbortSignal.any([gaveUp.signal, o.signal]) : gaveUp.signal;
    const timer = setTimeout(() => gaveUp.abort(new ConnectionFailed(`${method} ${path}: no answer within ${this.timeoutMs} ms`)), this.timeoutMs);
    const done = () => clearTimeout(timer);
    const failed = (e: unknown) => {
      done();
      if (o.signal?.aborted) return o.signal.reason;
      return e instanceof AssayError ? e : new ConnectionFailed(`${method} ${path}: ${e instanceof Error ? (e.cause instanceof Error ? e.cause.message : e.message) : e}`, { cause: e });
    };
    let response: Response;
    try {
      response = await fetch(this.href(path, o.query), init);
    } catch (e) {
      throw failed(e);
    }
    done();
    const read = async <T>(part: Promise<T>): Promise<T> => {
      try {
        return await part;
      } catch (e) {
        throw failed(e);
      }
    };
    if (response.ok) return { response, read, done };
    const text = await read(response.text());
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      body = undefined;
    }
    const error = errorOf(response.status, body);
    const after = Number(response.headers.get("retry-after") ?? "");
    if (Number.isFinite(after)) error.retryAfter = after;
    throw error;
  }
}

async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<Event, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch (e) {
        throw new ConnectionFailed("the stream was cut off", { cause: e });
      }
      if (part.done) return;
      text += decoder.decode(part.value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        let name = "", data = "";
        for (const line of text.slice(0, end).split("\n")) {
          if (line.startsWith("event:")) name = line.slice(6).trim();
          if (line.startsWith("data:")) data += line.slice(5).trim();
        }
        text = text.slice(end + 2);
        if (data) yield { name, data: JSON.parse(data) };
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
