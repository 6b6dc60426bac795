"""What the server tells of things. Times are datetimes in UTC."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional


def when(text: Optional[str]) -> Optional[datetime]:
    """Reads an instant of the API."""
    if not text:
        return None
    head, _, fraction = text.rstrip("Z").partition(".")
    at = datetime.strptime(head, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return at.replace(microsecond=int((fraction + "000000")[:6])) if fraction else at


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one command; None is the machine's own bound.

    cpu_seconds counts the whole process tree, as do memory_bytes and processes
    (processes and threads) at one moment. output_bytes is for each of stdout
    and stderr: 1 MiB if nothing is said, at most 4 MiB, 64 MiB for a stream.
    """

    cpu_seconds: Optional[float] = None
    memory_bytes: Optional[int] = None
    processes: Optional[int] = None
    output_bytes: Optional[int] = None
    file_size_bytes: Optional[int] = None
    disk_bytes: Optional[int] = None
    stack_bytes: Optional[int] = None
    open_files: Optional[int] = None

    def to_json(self) -> Dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass(frozen=True)
class Preview:
    """A link that shows a port of a sandbox to whoever has it."""

    url: str
    port: int
    expires_at: datetime

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "Preview":
        expires = when(d["expires_at"])
        assert expires is not None  # the API always says it
        return cls(url=str(d["url"]), port=int(d["port"]), expires_at=expires)


@dataclass(frozen=True)
class ExecUsage:
    """What was measured of a command: microseconds and bytes.

    cpu_us is the time to hold against a limit; in a dedicated sandbox it is the
    host's count."""

    cpu_us: int = 0
    cpu_user_us: int = 0
    cpu_system_us: int = 0
    wall_us: int = 0
    memory_peak_bytes: int = 0
    processes_peak: int = 0
    disk_bytes: int = 0

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "ExecUsage":
        return cls(**{name: int(d.get(name, 0)) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class ExecResult:
    """How a command ended, and what it printed.

    exit_code: the program's own; 124 at the timeout, 128 + the number of the
    signal that ended it, 137 at other limits.
    cause: why it ended, exactly one of exited, signaled, cpu_limit, wall_limit,
    memory_limit, output_limit, process_limit, disk_limit, killed, machine_lost.
    duration_ms: milliseconds from its start to its end.
    stdout_truncated, stderr_truncated: some of it was dropped.
    """

    stdout: str
    stderr: str
    exit_code: int
    cause: str
    timed_out: bool
    duration_ms: float
    usage: ExecUsage
    signal: int = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_bytes: bytes = field(default=b"", repr=False)
    stderr_bytes: bytes = field(default=b"", repr=False)

    @property
    def ok(self) -> bool:
        """It ended by itself, with 0."""
        return self.cause == "exited" and self.exit_code == 0

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "ExecResult":
        def raw(name: str) -> bytes:
            coded = d.get(name + "_base64")
            return base64.b64decode(coded) if coded else str(d.get(name, "")).encode()

        return cls(
            stdout=str(d["stdout"]), stderr=str(d["stderr"]), exit_code=int(d["exit_code"]), cause=str(d["cause"]), timed_out=bool(d["timed_out"]),
            duration_ms=int(d["duration_us"]) / 1000, usage=ExecUsage.of(d["usage"]), signal=int(d.get("signal", 0)),
            stdout_truncated=bool(d["stdout_truncated"]), stderr_truncated=bool(d["stderr_truncated"]), stdout_bytes=raw("stdout"), stderr_bytes=raw("stderr"),
        )


@dataclass(frozen=True)
class FileInfo:
    """What is at a path: type is file, dir, symlink or other; mode is octal."""

    name: str
    type: str
    size_bytes: int
    mode: str
    modified_at: Optional[datetime] = None
    link_target: str = ""
    sha256: str = ""

    @property
    def is_dir(self) -> bool:
        return self.type == "dir"

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "FileInfo":
        return cls(
            name=str(d["name"]), type=str(d["type"]), size_bytes=int(d["size_bytes"]), mode=str(d["mode"]), modified_at=when(d.get("modified_at")),
            link_target=str(d.get("link_target", "")), sha256=str(d.get("sha256", "")),
        )


@dataclass(frozen=True)
class FileEvent:
    """One change of a path: op is created, modified, removed, or overflow, which
    means that events were lost and the files must be looked at anew."""

    seq: int
    op: str
    path: str
    type: str
    count: int
    at: Optional[datetime]
    reason: str = ""

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "FileEvent":
        return cls(int(d["seq"]), str(d["op"]), str(d["path"]), str(d.get("type", "")), int(d["count"]), when(d["at"]), str(d.get("reason", "")))


@dataclass(frozen=True)
class SandboxEvent:
    """One line of a sandbox's log: what was done to it."""

    number: int
    at: Optional[datetime]
    kind: str
    detail: Mapping[str, Any]

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "SandboxEvent":
        return cls(int(d["number"]), when(d["at"]), str(d["kind"]), dict(d.get("detail") or {}))


@dataclass(frozen=True)
class Shape:
    """The size of a sandbox."""

    vcpus: int
    memory_bytes: int
    disk_bytes: int
    processes: int

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "Shape":
        return cls(int(d["vcpus"]), int(d["memory_bytes"]), int(d["disk_bytes"]), int(d["processes"]))


@dataclass(frozen=True)
class SandboxUsage:
    """What a sandbox has used, as it is accounted for."""

    cpu_us: int
    memory_gib_seconds: float
    snapshot_bytes: int

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "SandboxUsage":
        return cls(int(d["cpu_us"]), float(d["memory_gib_seconds"]), int(d["snapshot_bytes"]))


@dataclass(frozen=True)
class Template:
    """What sandboxes can be made of; only if it is built."""

    name: str
    built: bool
    description: str = ""
    languages: List[str] = field(default_factory=list)
    shape: Optional[Shape] = None
    problem: str = ""

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "Template":
        shape = d.get("shape")
        return cls(
            str(d["name"]), bool(d["built"]), str(d.get("description", "")), list(d.get("languages") or []), Shape.of(shape) if shape else None,
            str(d.get("problem", "")),
        )


@dataclass(frozen=True)
class QuotaAmounts:
    """Amounts of what a quota bounds; as a limit, 0 is no bound."""

    sandboxes: int
    cpu_seconds_today: float
    disk_bytes: int
    snapshots: int
    snapshot_bytes: int

    @classmethod
    def of(cls, d: Mapping[str, Any]) -> "QuotaAmounts":
        return cls(int(d["sandboxes"]), float(d["cpu_seconds_today"]), int(d["disk_bytes"]), int(d["snapshots"]), int(d["snapshot_bytes"]))


@dataclass(frozen=True)
class Quota:
    """What you may have, and what you have."""

    limits: QuotaAmounts
    used: QuotaAmounts
