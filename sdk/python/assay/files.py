"""Files in a sandbox. Paths are absolute, in the sandbox."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterator, List, Optional, Union
from urllib.parse import quote

from .errors import NotFoundError
from .models import FileInfo

if TYPE_CHECKING:
    from .sandbox import Sandbox


class Filesystem:
    """The files of one sandbox. Errors: NotFoundError; ConflictError for the
    wrong kind of thing in the way, or a directory that is not empty;
    PermissionDenied for a link that somebody else could have put there."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self._transport = sandbox.client._transport
        self._base = f"/api/v1/sandboxes/{quote(sandbox.id)}"

    def read(self, path: str, *, offset: int = 0, length: Optional[int] = None) -> bytes:
        """The bytes of a regular file, or length of them from an offset on."""
        with self._transport.open("GET", self._base + "/files", query={"path": path, "offset": offset, "length": length}) as answer:
            return answer.read()

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """A regular file as text."""
        return self.read(path).decode(encoding)

    def stream(self, path: str) -> Iterator[bytes]:
        """A regular file in pieces, for one that does not fit in memory."""
        with self._transport.open("GET", self._base + "/files", query={"path": path}) as answer:
            yield from answer.chunks()

    def write(
        self, path: str, content: Union[str, bytes, BinaryIO], *, mode: int = 0o644, owner: str = "user", parents: bool = True,
    ) -> FileInfo:
        """Writes a file in place of what is there; readers see the old content or
        the new, never a part. owner is "user" or "root"; parents makes missing
        directories above. Gives size and SHA-256."""
        body = content.encode() if isinstance(content, str) else content
        with self._transport.open(
            "PUT", self._base + "/files", query={"path": path, "mode": f"{mode:03o}", "owner": owner, "parents": parents}, body=body,
            headers={"Content-Type": "application/octet-stream"},
        ) as answer:
            return FileInfo.of(_json(answer.read()))

    def list(self, path: str = "/") -> List[FileInfo]:
        """The entries of a directory, by name; at most 10,000."""
        return [FileInfo.of(d) for d in self._transport.json("GET", self._base + "/files/list", query={"path": path})["items"]]

    def stat(self, path: str) -> FileInfo:
        """What is at a path; links are not followed."""
        return FileInfo.of(self._transport.json("GET", self._base + "/files/stat", query={"path": path}))

    def exists(self, path: str) -> bool:
        """Whether something is at a path."""
        try:
            self.stat(path)
        except NotFoundError:
            return False
        return True

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, a link or an empty directory; recursive: a whole tree."""
        self._transport.json("DELETE", self._base + "/files", query={"path": path, "recursive": recursive})

    def mkdir(self, path: str, *, mode: int = 0o755, owner: str = "user", parents: bool = True) -> None:
        """Makes a directory; with parents one that is there already is fine."""
        self._transport.json("POST", self._base + "/files/dir", query={"path": path, "mode": f"{mode:03o}", "owner": owner, "parents": parents})

    def rename(self, path: str, to: str) -> None:
        """Moves a file or directory, in place of a file or empty directory."""
        self._transport.json("POST", self._base + "/files/rename", query={"path": path, "to": to})

    def chmod(self, path: str, mode: int) -> None:
        """Sets the permission bits."""
        self._transport.json("POST", self._base + "/files/mode", query={"path": path, "mode": f"{mode:03o}"})

    def upload(self, local: Union[str, "os.PathLike[str]"], remote: str, *, owner: str = "user") -> None:
        """Copies a file or a directory with all in it from this host. remote is
        the path it gets. Links in the directory stay links."""
        source = Path(local)
        if not source.is_dir():
            with source.open("rb") as f:
                self.write(remote, f, mode=source.stat().st_mode & 0o777, owner=owner)
            return
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for entry in sorted(source.iterdir()):
                tar.add(str(entry), arcname=entry.name)
        self.write_tar(remote, packed.getvalue(), owner=owner)

    def write_tar(self, directory: str, tar: Union[bytes, BinaryIO], *, owner: str = "user") -> None:
        """Unpacks a tar archive into a directory, which is made if need be."""
        with self._transport.open(
            "PUT", self._base + "/tree", query={"path": directory, "owner": owner}, body=tar, headers={"Content-Type": "application/x-tar"},
        ) as answer:
            answer.read()

    def read_tar(self, directory: str) -> bytes:
        """A directory as a tar archive: directories, regular files and links."""
        with self._transport.open("GET", self._base + "/tree", query={"path": directory}) as answer:
            return answer.read()

    def download(self, remote: str, local: Union[str, "os.PathLike[str]"]) -> None:
        """Copies a file, or the regular files and directories of a directory, to
        this host. What is in the sandbox is not trusted: links are left out, and
        nothing is written outside of local."""
        target = Path(local)
        if not self.stat(remote).is_dir:
            with target.open("wb") as f:
                for piece in self.stream(remote):
                    f.write(piece)
            return
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(self.read_tar(remote))) as tar:
            for member in tar:
                to = target.joinpath(*(part for part in Path(member.name).parts if part not in ("/", ".", "..")))
                if member.isdir():
                    to.mkdir(parents=True, exist_ok=True)
                elif member.isfile():
                    to.parent.mkdir(parents=True, exist_ok=True)
                    content = tar.extractfile(member)
                    if content is not None:
                        to.write_bytes(content.read())
                        to.chmod(member.mode & 0o777)


def _json(text: bytes) -> Dict[str, Any]:
    decoded = json.loads(text)
    assert isinstance(decoded, dict)
    return decoded
