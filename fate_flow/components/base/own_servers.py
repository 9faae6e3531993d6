"""Which machine this is, and where the servers of this party listen for its workers.

Servers of one party that run on several machines share a folder with a file for each of them, `<name>.json`. A worker
whose own server is gone finds there another one on its machine, whose disk has the same messages.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import SplitResult, urlsplit


@cache
def machine_of_processes() -> str:
    """Return the name of what has the process numbers that this process sees: a machine since its boot, or a container.

    Only where this is the same, a process number means the same process."""
    return f"{_boot()}.{_namespace('pid')}"


@cache
def machine_of_addresses() -> str:
    """Return the name of what has the loopback address that this process sees: a machine since its boot, or a
    container."""
    return f"{_boot()}.{_namespace('net')}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace(kind: str) -> int:
    return os.stat(f"/proc/self/ns/{kind}").st_ino


def announced(url: str) -> dict[str, str]:
    """Return the content of the file of a server of this machine that listens at this URL for workers."""
    return {"machine": machine_of_addresses(), "worker_url": url}


def urls_here(folder: Path) -> tuple[str, ...]:
    """Return where the servers of this folder listen on this machine, by the names of the servers."""
    found = []
    for path in sorted(folder.glob("*.json")):
        document: object = None
        with suppress(OSError, ValueError):
            document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and document.get("machine") == machine_of_addresses():
            found.append(str(document.get("worker_url")))
    return tuple(found)


class ExchangeAddress:
    """The address of the exchange; of another server of the party on this machine, once the own one is gone.

    May be shared by threads."""

    def __init__(self, url: str, servers: str = "") -> None:
        """`servers`: the folder with the files of the party's servers; empty if there is only one.

        Whoever wrote the configuration of this worker may be a server of another machine: then `url` is of no use."""
        self._folder = Path(servers) if servers else None
        self._url = url
        self._lock = threading.Lock()
        if (here := self._others()) and url not in here:
            self._url = here[0]

    @property
    def url(self) -> str:
        with self._lock:
            return self._url

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)

    def try_another(self, failed: str) -> None:
        """Note that nobody answers at this URL: the next request goes to the next server of this machine."""
        with self._lock:
            here = self._others()
            if self._url == failed and here:
                position = here.index(failed) + 1 if failed in here else 0
                self._url = here[position % len(here)]

    def _others(self) -> tuple[str, ...]:
        path = urlsplit(self._url).path
        return tuple(f"{url}{path}" for url in urls_here(self._folder)) if self._folder is not None else ()
