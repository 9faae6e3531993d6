"""Find the keys of a server that this user runs on this machine: a user who may read them need not configure them.

`/proc` shows which files the processes of such a server hold open: the socket that listens at its address, and the
lock of its home.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

from fate_flow.settings.client_keys import ClientKeys, read_client_keys

LOCK = Path("run", "server.lock")
_LISTENS = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def keys_of_local_server(url: str) -> ClientKeys | None:
    """Return the keys; None if this user runs no server at this URL, or one without keys. Raise BadSettings."""
    home = home_of_local_server(url)
    return read_client_keys(shared_home_of(home)) if home is not None else None


def shared_home_of(home: Path) -> Path:
    """Return the folder with the keys of clients: that of all servers of the party, if it has several."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads((home / "run" / "server.json").read_text(encoding="utf-8"))
        return Path(document["shared_home"])
    return home


def home_of_local_server(url: str) -> Path | None:
    """Return the home of this user's server that listens at this URL."""
    parts = urlsplit(url)
    try:
        address = ip_address("127.0.0.1" if parts.hostname == "localhost" else parts.hostname or "")
    except ValueError:
        return None         # a host name: a proxy's, or another machine's
    sockets = set(_listening(address, parts.port or (443 if parts.scheme == "https" else 80)))
    if not sockets:
        return None
    for name in filter(str.isdigit, os.listdir("/proc")):
        held = _held_open(f"/proc/{name}")
        if not sockets.isdisjoint(held):
            # Some processes of a server share its socket without its lock; their numbers may be the lower ones.
            for one in held:
                if one.endswith(f"/{LOCK}"):
                    return Path(one).parents[1]
    return None


def homes_of_local_servers() -> list[Path]:
    """Return the homes of all servers of this user that run on this machine."""
    held = set[str]().union(*(_held_open(f"/proc/{name}") for name in filter(str.isdigit, os.listdir("/proc"))))
    return sorted(Path(one).parents[1] for one in held if one.endswith(f"/{LOCK}"))


def _listening(address: IPv4Address | IPv6Address, port: int) -> Iterator[str]:
    """Yield the sockets that listen there, as links of /proc/PID/fd name them."""
    for table in _TABLES:
        with suppress(FileNotFoundError), open(table, encoding="ascii") as file:
            for line in list(file)[1:]:
                _, local, _, state, *more = line.split()
                host, _, number = local.partition(":")
                if state == _LISTENS and int(number, 16) == port and _leads_to(address, _address(host)):
                    yield f"socket:[{more[5]}]"


def _address(text: str) -> IPv4Address | IPv6Address:
    """Read an address as the kernel writes it: words of 32 bits in the machine's byte order. That is little-endian on
    every machine that we support."""
    raw = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    return ip_address(raw)


def _leads_to(asked: IPv4Address | IPv6Address, bound: IPv4Address | IPv6Address) -> bool:
    return asked == bound or (asked.is_loopback and bound.is_unspecified)


def _held_open(process: str) -> set[str]:
    """Return the files that a process holds open; nothing if it has ended or belongs to another user."""
    found = set()
    with suppress(OSError):
        if os.stat(process).st_uid == os.getuid():
            for number in os.listdir(f"{process}/fd"):
                with suppress(OSError):
                    found.add(os.readlink(f"{process}/fd/{number}"))
    return found
