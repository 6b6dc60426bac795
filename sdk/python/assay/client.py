"""A connection to one server."""

from __future__ import annotations

import os
import threading
from typing import Any, Dict, Iterator, List, Mapping, Optional
from urllib.parse import quote

from ._http import Transport
from .models import Quota, QuotaAmounts, Template
from .sandbox import Labels, Sandbox, Snapshot, _filter

__all__ = ["Client", "default_client", "set_default_client"]


class Client:
    """Speaks to one server. It may be used from many threads.

    url and token: else the environment's ASSAY_URL and ASSAY_TOKEN.
    timeout: seconds to wait for the next bytes of an answer; a long exec shows
    every 10 s that it lives, so this bounds no command.
    retry_seconds: for how long a request that did not get through, or met a full
    server, is tried again. Only requests that are safe to repeat are; those that
    make or run something carry a key, so they are done once.
    """

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 30.0, retry_seconds: float = 60.0) -> None:
        where = url or os.environ.get("ASSAY_URL") or "http://127.0.0.1:8080"
        self.url = where.rstrip("/")
        self._transport = Transport(self.url, token if token is not None else os.environ.get("ASSAY_TOKEN", ""), timeout, retry_seconds)

    def create(
        self, template: str = "", *, snapshot: str = "", ttl_seconds: float = 0, idle_seconds: float = 0, name: str = "",
        labels: Optional[Labels] = None, metadata: Optional[Labels] = None, dedicated: bool = False, persistent: bool = False,
    ) -> Sandbox:
        """Makes a sandbox: see Sandbox.create."""
        return Sandbox.create(
            template, snapshot=snapshot, ttl_seconds=ttl_seconds, idle_seconds=idle_seconds, name=name, labels=labels, metadata=metadata,
            dedicated=dedicated, persistent=persistent, client=self,
        )

    def get(self, sandbox_id: str) -> Sandbox:
        """A sandbox by its ID, live or ended."""
        return Sandbox.get(sandbox_id, client=self)

    def sandboxes(self, *, labels: Optional[Labels] = None, all: bool = False, owner: str = "") -> Iterator[Sandbox]:
        """Your sandboxes: see Sandbox.list."""
        return Sandbox.list(labels=labels, all=all, owner=owner, client=self)

    def snapshots(self, *, labels: Optional[Labels] = None, sandbox_id: str = "") -> Iterator[Snapshot]:
        """Your snapshots, newest first."""
        for d in self._pages("/api/v1/snapshots", {"label": _filter(labels), "sandbox": sandbox_id or None}):
            yield Snapshot(self, d)

    def snapshot(self, snapshot_id: str) -> Snapshot:
        """A snapshot by its ID."""
        return Snapshot(self, self._transport.json("GET", f"/api/v1/snapshots/{quote(snapshot_id, safe='')}"))

    def templates(self) -> List[Template]:
        """What sandboxes can be made of, by name."""
        return [Template.of(d) for d in self._transport.json("GET", "/api/v1/templates")["items"]]

    def template(self, name: str) -> Template:
        """A template by its name."""
        return Template.of(self._transport.json("GET", f"/api/v1/templates/{quote(name, safe='')}"))

    def quota(self) -> Quota:
        """What you may have, and what you have."""
        d = self._transport.json("GET", "/api/v1/quota")
        return Quota(QuotaAmounts.of(d["limits"]), QuotaAmounts.of(d["used"]))

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
        cursor: Optional[str] = None
        while True:
            page = self._transport.json("GET", path, query={**query, "limit": 200, "cursor": cursor})
            yield from page["items"]
            cursor = page.get("next")
            if not cursor:
                return


_lock = threading.Lock()
_default: Optional[Client] = None


def default_client() -> Client:
    """The client of calls that are given none: made of the environment."""
    global _default
    with _lock:
        if _default is None:
            _default = Client()
        return _default


def set_default_client(client: Optional[Client]) -> None:
    """Sets the client of calls that are given none."""
    global _default
    with _lock:
        _default = client
