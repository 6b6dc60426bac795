/** What can go wrong. How a command ended is never an error: see ExecResult. */
export class AssayError extends Error {
  /** For programs: "sandbox.not_found". */
  readonly code: string;
  /** The remedy, or "". */
  readonly hint: string;
  /** Names the request in the server's log, or "". */
  readonly requestId: string;
  /** The HTTP status, 0 where no answer came. */
  readonly status: number;
  /** The seconds that the server asks to wait, or 0. */
  retryAfter = 0;

  constructor(message: string, more: { code?: string; hint?: string; requestId?: string; status?: number; cause?: unknown } = {}) {
    super(more.hint ? `${message} (${more.hint})` : message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = new.target.name;
    this.code = more.code ?? "";
    this.hint = more.hint ?? "";
    this.requestId = more.requestId ?? "";
    this.status = more.status ?? 0;
  }
}

/** No token, or one that is wrong, has expired or was revoked (401). */
export class AuthError extends AssayError {}
/** You may not do that (403). */
export class PermissionDenied extends AssayError {}
/** It is not there, or not yours to know of (404). */
export class NotFoundError extends AssayError {}
/** The request can never work (400, 413). */
export class BadRequestError extends AssayError {}
/** The sandbox's state does not allow it: it has ended or is paused (409). */
export class ConflictError extends AssayError {}
/** Another request came with the same idempotency key (422). */
export class KeyReusedError extends AssayError {}
/** A quota or rate of yours is used up (429). */
export class LimitError extends AssayError {}
/** This server cannot do that (501). */
export class UnsupportedError extends AssayError {}
/** The server is full or not ready, also after trying again (503). */
export class UnavailableError extends AssayError {}
/** The server failed (other 5xx). */
export class ServerError extends AssayError {}
/** No answer came: the server was not reached or the connection broke. */
export class ConnectionFailed extends AssayError {}
/** No child of a fork could be made. */
export class ForkFailed extends AssayError {}

/** A command that was run with check did not end with 0. */
export class CommandFailed<R = unknown> extends AssayError {
  constructor(message: string, readonly result: R) {
    super(message, { code: "command.failed" });
  }
}

const byStatus: Record<number, typeof AssayError> = {
  400: BadRequestError, 401: AuthError, 403: PermissionDenied, 404: NotFoundError, 409: ConflictError, 413: BadRequestError,
  422: KeyReusedError, 429: LimitError, 501: UnsupportedError, 503: UnavailableError,
};

const byKind: Record<string, number> = {
  invalid: 400, unauthenticated: 401, denied: 403, not_found: 404, conflict: 409, limited: 429, unsupported: 501, exhausted: 503, unavailable: 503,
};

/** Makes the error of a status and a decoded body. */
export function errorOf(status: number, body: unknown): AssayError {
  const Kind = byStatus[status] ?? (status >= 500 ? ServerError : BadRequestError);
  const b = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const text = (name: string) => (typeof b[name] === "string" ? (b[name] as string) : "");
  return new Kind(text("error") || `the server answered ${status}`, { code: text("code"), hint: text("hint"), requestId: text("request_id"), status });
}

/** Makes the error of an event that came when the answer had begun. */
export function errorOfEvent(body: unknown): AssayError {
  const code = String((body as { code?: unknown })?.code ?? "");
  return errorOf(byKind[code.slice(code.lastIndexOf(".") + 1)] ?? 500, body);
}
