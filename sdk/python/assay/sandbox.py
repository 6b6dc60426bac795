"""Sandboxes and snapshots."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union
from urllib.parse import quote

from ._http import Answer
from .errors import AssayError, CommandFailed, ConnectionFailed, ForkFailed, of_answer
from .files import Filesystem
from .models import ExecResult, FileEvent, Limits, Preview, SandboxEvent, SandboxUsage, Shape, when

if TYPE_CHECKING:
    from .client import Client

Labels = Mapping[str, str]
Command = Union[str, Sequence[str]]


class Output(NamedTuple):
    """A piece of what a command printed: stream is "stdout" or "stderr"."""

    stream: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class Sandbox:
    """One throwaway machine. Use it in a with to end it at the end.

    id, template, name, labels, parent (the sandbox it was forked from), snapshot
    (that it was made of), boot_mode, boot_ms, shape, created_at, deadline_at
    (its hard end), idle_seconds (0 is never) do not change by themselves. state
    ("running", "paused", "ended"), end_reason, end_cause and usage are as of the
    last answer: refresh() asks again.
    """

    def __init__(self, client: "Client", data: Mapping[str, Any]) -> None:
        self.client = client
        self._take(data)

    def _take(self, d: Mapping[str, Any]) -> None:
        self.id: str = str(d["id"])
        self.owner: str = str(d["owner"])
        self.node: str = str(d["node"])
        self.name: str = str(d.get("name", ""))
        self.labels: Dict[str, str] = dict(d.get("labels") or {})
        self.state: str = str(d["state"])
        self.template: str = str(d["template"])
        self.template_digest: str = str(d["template_digest"])
        self.snapshot_id: str = str(d.get("snapshot", ""))
        self.parent: str = str(d.get("parent", ""))
        self.boot_mode: str = str(d["boot_mode"])
        self.boot_ms: float = int(d["boot_us"]) / 1000
        self.shape: Shape = Shape.of(d["shape"])
        self.dedicated: bool = bool(d.get("dedicated", False))
        self.persistent: bool = bool(d.get("persistent", False))
        self.created_at: Optional[datetime] = when(d["created_at"])
        self.deadline_at: Optional[datetime] = when(d["deadline_at"])
        self.idle_seconds: float = float(d.get("idle_seconds", 0))
        self.ended_at: Optional[datetime] = when(d.get("ended_at"))
        self.end_reason: str = str(d.get("end_reason", ""))
        self.end_cause: str = str(d.get("end_cause", ""))
        self.usage: SandboxUsage = SandboxUsage.of(d["usage"])

    def __repr__(self) -> str:
        return f"Sandbox({self.id!r}, template={self.template!r}, state={self.state!r})"

    @property
    def metadata(self) -> Dict[str, str]:
        """The labels, by the name that other systems give them."""
        return self.labels

    @property
    def filesystem(self) -> Filesystem:
        """Its files."""
        return Filesystem(self)

    @property
    def files(self) -> Filesystem:
        """Its files."""
        return Filesystem(self)

    @property
    def _path(self) -> str:
        return f"/api/v1/sandboxes/{quote(self.id)}"

    @classmethod
    def create(
        cls, template: str = "", *, snapshot: str = "", ttl_seconds: float = 0, idle_seconds: float = 0, name: str = "",
        labels: Optional[Labels] = None, metadata: Optional[Labels] = None, dedicated: bool = False, allow: Optional[Sequence[str]] = None, network_phase: str = "always",
        persistent: bool = False, client: Optional["Client"] = None,
    ) -> "Sandbox":
        """Makes a sandbox and returns when it can be used.

        template ("base" if neither it nor snapshot is given) or snapshot (an ID)
        is what it is made of. ttl_seconds is its hard end from now, 0 an hour;
        idle_seconds ends it after so long without a call, 0 never. labels
        (metadata is another name for them): at most 32. dedicated reserves whole
        processors of the host. persistent lets it outlive the server's process, which
        adopts it when it starts again; it has no network then.

        allow lists the names that it may reach, through a proxy: "web.example.org",
        "*.example.org:443". None is no network at all, and none later; an empty list
        is a network that is shut. With network_phase "setup" it is shut when the
        first terminal is opened, or by end_setup(). Of a snapshot it may be no more
        than its sandbox had.

        Raises LimitError for a quota that is used up, UnavailableError when the
        host stays full, NotFoundError and ConflictError for a template that is
        not there or not built.
        """
        from .client import default_client

        c = client or default_client()
        body = _terms(ttl_seconds, idle_seconds, name, labels or metadata)
        if snapshot:
            body["snapshot"] = snapshot
        if template or not snapshot:
            body["template"] = template or "base"
        if dedicated:
            body["dedicated"] = True
        if persistent:
            body["persistent"] = True
        if allow is not None:
            body["network"] = {"allow": list(allow), "phase": network_phase}
        return cls(c, c._transport.json("POST", "/api/v1/sandboxes", body=body, once=True))

    @classmethod
    def get(cls, sandbox_id: str, *, client: Optional["Client"] = None) -> "Sandbox":
        """A sandbox by its ID, live or ended."""
        from .client import default_client

        c = client or default_client()
        return cls(c, c._transport.json("GET", f"/api/v1/sandboxes/{quote(sandbox_id, safe='')}"))

    @classmethod
    def list(
        cls, *, labels: Optional[Labels] = None, all: bool = False, owner: str = "", client: Optional["Client"] = None,
    ) -> Iterator["Sandbox"]:
        """Your live sandboxes, newest first; with all also those that ended.
        labels keeps those that have all of these."""
        from .client import default_client

        c = client or default_client()
        query = {"state": "all" if all else "live", "label": _filter(labels), "owner": owner or None}
        for d in c._pages("/api/v1/sandboxes", query):
            yield cls(c, d)

    def refresh(self) -> "Sandbox":
        """Asks for its present state."""
        self._take(self.client._transport.json("GET", self._path))
        return self

    def exec(
        self, command: Command, *, timeout_seconds: Optional[float] = None, limits: Optional[Limits] = None, cwd: str = "",
        env: Optional[Mapping[str, str]] = None, stdin: Union[str, bytes, None] = None, user: str = "user", isolated: bool = False,
        background: bool = False, stop_at_output: bool = False, check: bool = False,
    ) -> ExecResult:
        """Runs a command and waits for its end.

        command is a line for "sh -c", or a program with its arguments, which no
        shell sees. timeout_seconds ends it with exit_code 124 and what it printed
        so far; None is the sandbox's own deadline. limits bound it further.
        env is added to a small fixed environment; user is "user" or "root".
        isolated gives it processes and a /tmp of its own and the rest read-only.
        background lets what it started go on after it. stop_at_output ends it at
        limits.output_bytes, otherwise the middle of its output is dropped.

        How it ended is the result; check raises CommandFailed unless it ended
        with 0. If the connection breaks, the same command is asked for again: it
        never runs twice.
        """
        body = _exec(command, timeout_seconds, limits, cwd, env, stdin, user, isolated, background, stop_at_output)
        result = ExecResult.of(self.client._transport.json("POST", self._path + "/exec", body=body, once=True))
        if check and not result.ok:
            raise CommandFailed(f"the command ended with {result.exit_code} ({result.cause})", result)
        return result

    def stream(
        self, command: Command, *, timeout_seconds: Optional[float] = None, limits: Optional[Limits] = None, cwd: str = "",
        env: Optional[Mapping[str, str]] = None, stdin: Union[str, bytes, None] = None, user: str = "user", isolated: bool = False,
        background: bool = False, stop_at_output: bool = False,
    ) -> "ExecStream":
        """Runs a command and gives what it prints while it runs; see exec. The
        command is killed when the stream is closed before its end. It is not
        begun again when the connection breaks."""
        body = _exec(command, timeout_seconds, limits, cwd, env, stdin, user, isolated, background, stop_at_output)
        answer = self.client._transport.open(
            "POST", self._path + "/exec/stream", body=json.dumps(body).encode(), headers={"Content-Type": "application/json"},
        )
        return ExecStream(answer)

    def watch(self, path: str, *, exclude: Sequence[str] = (), watch_id: str = "", after: int = 0) -> "Watch":
        """Follows changes below a directory, from before it returns on.

        exclude are patterns such as "node_modules/**". With a watch_id of your
        own the watch goes on in the sandbox without a reader, and another begins
        behind the event number after."""
        answer = self.client._transport.open(
            "GET", self._path + "/watch", query={"path": path, "exclude": list(exclude), "watch": watch_id or None, "after": after},
        )
        return Watch(answer)

    def snapshot(self, *, keep_seconds: float = 0, name: str = "", labels: Optional[Labels] = None) -> "Snapshot":
        """Freezes memory and disk, and lets the sandbox go on. The snapshot is
        deleted after keep_seconds; 0 keeps it until delete()."""
        body: Dict[str, Any] = {"keep_seconds": keep_seconds, "name": name, "labels": dict(labels or {})}
        return Snapshot(self.client, self.client._transport.json("POST", self._path + "/snapshots", body=body, once=True))

    def fork(
        self, count: int = 1, *, ttl_seconds: float = 0, idle_seconds: float = 0, name: str = "", labels: Optional[Labels] = None,
        metadata: Optional[Labels] = None,
    ) -> "Forked":
        """Makes 1 to 64 children, memory and disk, while it goes on. Raises
        ForkFailed only if there is no child at all: see Forked.problems."""
        body = {"count": count, **_terms(ttl_seconds, idle_seconds, name, labels or metadata)}
        return Forked(self.client, self.client._transport.json("POST", self._path + "/fork", body=body, once=True))

    def network(self) -> Dict[str, Any]:
        """What it may reach ("policy", not there without a network), and what
        went through: "attempts", "sent_bytes", "received_bytes"."""
        return self.client._transport.json("GET", self._path + "/network")

    def set_network(self, allow: Sequence[str], *, phase: str = "always") -> Dict[str, Any]:
        """Changes what it may reach, at once; see create. Raises ConflictError
        for one that was made without a network."""
        return self.client._transport.json("PUT", self._path + "/network", body={"allow": list(allow), "phase": phase})

    def network_off(self) -> Dict[str, Any]:
        """Lets it reach nothing; what is open is cut."""
        return self.client._transport.json("DELETE", self._path + "/network")

    def end_setup(self) -> Dict[str, Any]:
        """Shuts what it could reach for its setup only."""
        return self.client._transport.json("POST", self._path + "/network/end-setup")

    def pause(self) -> None:
        """Stops all its processes; its deadline goes on."""
        self._take(self.client._transport.json("POST", self._path + "/pause"))

    def resume(self) -> None:
        """Lets it go on after pause()."""
        self._take(self.client._transport.json("POST", self._path + "/resume"))

    def extend(self, ttl_seconds: float) -> None:
        """Moves its hard end to so many seconds from now."""
        self._take(self.client._transport.json("PATCH", self._path, body={"ttl_seconds": ttl_seconds}))

    def keep_alive(self, ttl_seconds: Optional[float] = None) -> None:
        """Counts as a use for the idle limit, and moves the hard end if asked."""
        if ttl_seconds is not None:
            self.extend(ttl_seconds)
        self.client._transport.json("POST", self._path + "/touch")

    def kill(self) -> None:
        """Ends it in any state; ending one that has ended is fine."""
        self.client._transport.json("DELETE", self._path)
        self.state = "ended"

    def events(self) -> List[SandboxEvent]:
        """Its log, oldest first; kept after its end."""
        return [SandboxEvent.of(d) for d in self.client._transport.json("GET", self._path + "/events")["items"]]

    def open_port(self, port: int, path: str = "/", *, method: str = "GET", body: Optional[bytes] = None, headers: Optional[Mapping[str, str]] = None) -> bytes:
        """Sends a request to a server on the sandbox's loopback and gives the
        answer's body. Raises UnavailableError while nobody listens."""
        with self.client._transport.open(method, f"{self._path}/ports/{port}/{path.lstrip('/')}", body=body, headers=headers) as answer:
            return answer.read()

    def preview(self, port: int, *, ttl_seconds: Optional[float] = None, path: str = "/") -> Preview:
        """Makes a link that shows a port in a browser, on an origin of its own.

        Whoever has the link may see the port until it expires: an hour if
        nothing is said. The server inside may begin to listen later. Raises
        UnsupportedError on a server without previews."""
        body: Dict[str, Any] = {"port": port, "path": path}
        if ttl_seconds is not None:
            body["ttl_seconds"] = ttl_seconds
        return Preview.of(self.client._transport.json("POST", self._path + "/previews", body=body))

    def revoke_previews(self) -> None:
        """Takes back all links to its ports, at once; pages that are open end."""
        self.client._transport.json("DELETE", self._path + "/previews")

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Forked(List[Sandbox]):
    """The children of a fork. problems says why others could not be made."""

    def __init__(self, client: "Client", data: Mapping[str, Any]) -> None:
        super().__init__()
        self.problems: List[str] = []
        for child in data["children"]:
            if child.get("sandbox"):
                self.append(Sandbox(client, child["sandbox"]))
            else:
                self.problems.append(str(child.get("problem", "")))
        if not self:
            raise ForkFailed("; ".join(self.problems) or "no child was made", code="sandbox.fork_failed")


class Snapshot:
    """The frozen state of a sandbox: id, sandbox_id, template, name, labels,
    size_bytes, created_at, expires_at (None is never)."""

    def __init__(self, client: "Client", d: Mapping[str, Any]) -> None:
        self.client = client
        self.id: str = str(d["id"])
        self.sandbox_id: str = str(d["sandbox"])
        self.template: str = str(d["template"])
        self.name: str = str(d.get("name", ""))
        self.labels: Dict[str, str] = dict(d.get("labels") or {})
        self.size_bytes: int = int(d["size_bytes"])
        self.created_at: Optional[datetime] = when(d["created_at"])
        self.expires_at: Optional[datetime] = when(d.get("expires_at"))

    def __repr__(self) -> str:
        return f"Snapshot({self.id!r}, template={self.template!r})"

    def create(self, *, ttl_seconds: float = 0, idle_seconds: float = 0, name: str = "", labels: Optional[Labels] = None) -> Sandbox:
        """Makes one sandbox of it."""
        return Sandbox.create(snapshot=self.id, ttl_seconds=ttl_seconds, idle_seconds=idle_seconds, name=name, labels=labels, client=self.client)

    def fork(
        self, count: int = 1, *, ttl_seconds: float = 0, idle_seconds: float = 0, name: str = "", labels: Optional[Labels] = None,
        metadata: Optional[Labels] = None,
    ) -> Forked:
        """Makes 1 to 64 sandboxes of it; see Sandbox.fork."""
        body = {"count": count, **_terms(ttl_seconds, idle_seconds, name, labels or metadata)}
        return Forked(self.client, self.client._transport.json("POST", f"/api/v1/snapshots/{quote(self.id)}/fork", body=body, once=True))

    def delete(self) -> None:
        """Deletes it. Sandboxes made of it go on."""
        self.client._transport.json("DELETE", f"/api/v1/snapshots/{quote(self.id)}")


class ExecStream:
    """What a command prints, as it comes. Loop over it, once; result is there at
    the end. Leaving the loop before kills the command."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.result: Optional[ExecResult] = None

    def __iter__(self) -> Iterator[Output]:
        try:
            for name, data in self._answer.events():
                if name in ("stdout", "stderr"):
                    coded = data.get("base64")
                    yield Output(name, base64.b64decode(coded) if coded else str(data["chunk"]).encode())
                elif name == "exit":
                    self.result = ExecResult.of(data)
                    return
                elif name == "error":
                    raise of_answer(_status(data), data)
        finally:
            self.close()
        raise AssayError("the stream ended before the command did: how it ended is not known", code="stream.cut")

    def wait(self) -> ExecResult:
        """Reads to the end and gives the result, without the output."""
        for _ in self:
            pass
        assert self.result is not None
        return self.result

    def close(self) -> None:
        """Kills the command if it has not ended."""
        self._answer.close()

    def __enter__(self) -> "ExecStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Watch:
    """Changes below a directory: iterate over it. id names it for a later reader.
    The iteration ends with ConflictError when the sandbox ends. Close it, or use
    it in a with."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._events = answer.events()
        name, data = next(self._events, ("", None))
        if not name:
            answer.close()
            raise ConnectionFailed("the watch did not begin")
        if name == "error":
            answer.close()
            raise of_answer(_status(data), data)
        self.id: str = str(data["id"])

    def __iter__(self) -> Iterator[FileEvent]:
        for name, data in self._events:
            if name == "error":
                raise of_answer(_status(data), data)
            yield FileEvent.of(data)

    def close(self) -> None:
        self._answer.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _status(error: Mapping[str, Any]) -> int:
    """The status of an error that came when the answer had begun."""
    kind = str(error.get("code", "")).rpartition(".")[2]
    return {
        "invalid": 400, "unauthenticated": 401, "denied": 403, "not_found": 404, "conflict": 409, "limited": 429, "unsupported": 501,
        "exhausted": 503, "unavailable": 503,
    }.get(kind, 500)


def _terms(ttl: float, idle: float, name: str, labels: Optional[Labels]) -> Dict[str, Any]:
    body: Dict[str, Any] = {}
    for key, value in (("ttl_seconds", ttl), ("idle_seconds", idle), ("name", name), ("labels", dict(labels or {}))):
        if value:
            body[key] = value
    return body


def _filter(labels: Optional[Labels]) -> List[str]:
    return [f"{name}={value}" for name, value in (labels or {}).items()]


def _exec(
    command: Command, timeout_seconds: Optional[float], limits: Optional[Limits], cwd: str, env: Optional[Mapping[str, str]],
    stdin: Union[str, bytes, None], user: str, isolated: bool, background: bool, stop_at_output: bool,
) -> Dict[str, Any]:
    body: Dict[str, Any] = {"user": user}
    if isinstance(command, str):
        body["command"] = command
    else:
        body["argv"] = list(command)
    if isinstance(stdin, bytes):
        body["stdin_base64"] = base64.b64encode(stdin).decode()
    elif stdin is not None:
        body["stdin"] = stdin
    optional: Dict[str, Any] = {
        "timeout_seconds": timeout_seconds, "limits": limits.to_json() if limits else None, "cwd": cwd, "env": dict(env) if env else None,
        "isolated": isolated, "background": background, "stop_at_output": stop_at_output,
    }
    body.update({name: value for name, value in optional.items() if value})
    return body
