"""What can go wrong. How a command ended is never an error: see ExecResult."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Type


class AssayError(Exception):
    """Base of all errors.

    code: for programs ("sandbox.not_found"); hint: the remedy, or "";
    request_id: names the request in the server's log, or "";
    status: the HTTP status, 0 where no answer came;
    retry_after: the seconds that the server asks to wait, or 0.
    """

    def __init__(self, message: str, *, code: str = "", hint: str = "", request_id: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.request_id = request_id
        self.status = status
        self.retry_after = 0.0

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class AuthError(AssayError):
    """No token, or one that is wrong, has expired or was revoked (401)."""


class PermissionDenied(AssayError):
    """You may not do that (403)."""


class NotFoundError(AssayError):
    """It is not there, or not yours to know of (404)."""


class BadRequestError(AssayError):
    """The request can never work (400, 413)."""


class ConflictError(AssayError):
    """The sandbox's state does not allow it: it has ended or is paused (409)."""


class KeyReusedError(AssayError):
    """Another request came with the same idempotency key (422)."""


class LimitError(AssayError):
    """A quota or rate of yours is used up (429)."""


class UnsupportedError(AssayError):
    """This server cannot do that (501)."""


class UnavailableError(AssayError):
    """The server is full or not ready, also after trying again (503)."""


class ServerError(AssayError):
    """The server failed (other 5xx)."""


class ConnectionFailed(AssayError):
    """No answer came: the server was not reached or the connection broke."""


class ForkFailed(AssayError):
    """No child of a fork could be made."""


class CommandFailed(AssayError):
    """A command that was run with check=True did not end with 0.

    result: its ExecResult.
    """

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message, code="command.failed")
        self.result = result


_BY_STATUS: Mapping[int, Type[AssayError]] = {
    400: BadRequestError, 401: AuthError, 403: PermissionDenied, 404: NotFoundError, 409: ConflictError,
    413: BadRequestError, 422: KeyReusedError, 429: LimitError, 501: UnsupportedError, 503: UnavailableError,
}


def of_answer(status: int, body: Any) -> AssayError:
    """Makes the error of a status and a decoded body."""
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else BadRequestError)
    if not isinstance(body, Mapping):
        return kind(f"the server answered {status}", status=status)
    text: Optional[Any] = body.get("error")
    return kind(
        str(text or f"the server answered {status}"), code=str(body.get("code", "")), hint=str(body.get("hint", "")),
        request_id=str(body.get("request_id", "")), status=status,
    )
