"""Requests and answers, with the standard library only."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
import uuid
from typing import Any, BinaryIO, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import AssayError, ConnectionFailed, of_answer

Body = Union[bytes, BinaryIO, None]
Query = Mapping[str, Union[str, int, float, bool, Sequence[str], None]]

_CHUNK = 64 << 10


class Transport:
    """Sends requests to one server. It may be used from many threads: each
    request has a connection of its own."""

    def __init__(self, url: str, token: str, timeout: float, retry_seconds: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the server's URL must begin with http:// or https://, not {url!r}")
        self._parts = parts
        self._token = token
        self._timeout = timeout
        self._retry_seconds = retry_seconds

    def json(
        self, method: str, path: str, *, query: Optional[Query] = None, body: Optional[Mapping[str, Any]] = None,
        once: bool = False,
    ) -> Any:
        """Sends JSON and gives the decoded answer (None for 204). once: give the
        request a key, with which it can be tried again and is done once."""
        headers: Dict[str, str] = {}
        data: Optional[bytes] = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if once:
            headers["Idempotency-Key"] = uuid.uuid4().hex
        again = once or method in ("GET", "DELETE")
        end = time.monotonic() + self._retry_seconds
        pause = 0.25
        while True:
            try:
                with self._send(method, path, query, data, headers, None) as answer:
                    text = answer.read()
                return json.loads(text) if text.strip() else None
            except AssayError as e:
                wait = max(pause * random.uniform(0.5, 1.5), e.retry_after)
                retry = isinstance(e, ConnectionFailed) or e.status == 503 or (e.status == 429 and e.retry_after > 0)
                if not again or not retry or time.monotonic() + wait > end:
                    raise
            time.sleep(wait)
            pause = min(pause * 2, 5.0)

    def open(
        self, method: str, path: str, *, query: Optional[Query] = None, body: Body = None, headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> "Answer":
        """Sends one request, once, and gives the answer as a stream. Close it."""
        return self._send(method, path, query, body, headers or {}, timeout)

    def _send(
        self, method: str, path: str, query: Optional[Query], body: Body, headers: Mapping[str, str], timeout: Optional[float],
    ) -> "Answer":
        wait = self._timeout if timeout is None else timeout
        host, port = self._parts.hostname or "", self._parts.port
        connection: http.client.HTTPConnection
        if self._parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=wait, context=ssl.create_default_context())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=wait)
        every = {"Accept": "application/json, */*", "User-Agent": "assay-python/0.1.0", **headers}
        if self._token:
            every["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, self._parts.path.rstrip("/") + path + _encode(query), body=body, headers=every,
                               encode_chunked=body is not None and not isinstance(body, bytes))
            response = connection.getresponse()
            if response.status < 300:
                return Answer(connection, response)
            text = response.read()
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise ConnectionFailed(f"{method} {path}: {e or type(e).__name__}") from e
        connection.close()
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = None
        error = of_answer(response.status, decoded)
        after = response.headers.get("Retry-After", "")
        if after.isdigit():
            error.retry_after = float(after)
        raise error


class Answer:
    """An answer that is read as it comes. Close it, or use it in a with."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response

    def read(self, size: int = -1) -> bytes:
        """Reads to the end, or at most size bytes. A broken connection is
        ConnectionFailed: what came before is not the whole."""
        try:
            return self._response.read() if size < 0 else self._response.read(size)
        except (OSError, http.client.HTTPException) as e:
            raise ConnectionFailed(f"the answer was cut off: {e or type(e).__name__}") from e

    def chunks(self) -> Iterator[bytes]:
        while True:
            data = self.read(_CHUNK)
            if not data:
                return
            yield data

    def events(self) -> Iterator[Tuple[str, Any]]:
        """Server-sent events: name and decoded data."""
        name, data = "", ""
        while True:
            try:
                line = self._response.readline()
            except (OSError, http.client.HTTPException, ValueError, AttributeError) as e:
                raise ConnectionFailed(f"the stream was cut off: {e or type(e).__name__}") from e
            if not line:
                return
            text = line.decode("utf-8").rstrip("\r\n")
            if text.startswith("event:"):
                name = text[len("event:"):].strip()
            elif text.startswith("data:"):
                data += text[len("data:"):].strip()
            elif not text and data:
                yield name, json.loads(data)
                name, data = "", ""

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _encode(query: Optional[Query]) -> str:
    pairs = []
    for name, value in (query or {}).items():
        if value is None:
            continue
        values = [value] if isinstance(value, (str, int, float)) else value
        for v in values:
            pairs.append((name, str(v).lower() if isinstance(v, bool) else str(v)))
    return "?" + urlencode(pairs, quote_via=quote) if pairs else ""
