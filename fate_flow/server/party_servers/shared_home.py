"""The folder that all servers of a party share: proved at the start, and where each finds the others."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from peewee import Database

from fate_flow.components.base.own_servers import announced
from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.local.worker import write_atomically
from fate_flow.settings.servers import OneOfServers
from fate_flow.settings.settings import Settings
from fate_flow.store.database.party_servers import KnownServer, known_servers, note_server


@contextmanager
def named_server(settings: Settings) -> Iterator[None]:
    """Hold the name of this server among those of its party. Raise FlowError if another process has it, or the folder
    cannot be used by several machines. Does nothing for a party's only server."""
    one = settings.one_of
    if one is None:
        yield
        return
    folder = one.folder
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / f"{one.name}.lock").open("a") as lock:
            os.set_inheritable(lock.fileno(), False)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FlowError(
                    f"servers.name: another server of the party runs as {one.name}: each has a name of its own"
                ) from error
            _check_file_system(folder, one.name)
            yield
    except OSError as error:
        raise FlowError(f"servers.shared_home: {os_error_text(error, folder)}") from error


def prove_shared_home(settings: Settings, database: Database) -> None:
    """Prove that this server and those that the database knows have the same folder. Raise FlowError.

    Each start writes a new random sign into a file there, and then into the database. So a server that sees a sign in
    the database, but not in the folder, sees another folder: an older copy, or the empty folder below a mount."""
    one, others = settings.one_of, known_servers(database)
    if one is None:
        if others:
            raise FlowError(
                f"servers.name: is not set, but the database has rows of servers of the party that share the folder "
                f"{others[0].shared_home} (table t_server: {', '.join(server.name for server in others)}): set "
                "servers.name and servers.shared_home here, too. If this is the party's only server from now on, let "
                "home be that folder, and remove these rows"
            )
        return
    sign, home = secrets.token_hex(16), str(one.shared_home)
    try:
        _write(_sign_file(one, one.name), sign)
    except OSError as error:
        raise FlowError(f"servers.shared_home: {os_error_text(error)}") from error
    note_server(database, KnownServer(one.name, sign, home))
    for other in known_servers(database):
        if other.shared_home != home:
            raise FlowError(
                f"servers.shared_home: is {home} here, and {other.shared_home} at server {other.name}: the folder has "
                "to have one path at all servers, since rows of the database name files in it"
            )
        if _read(_sign_file(one, other.name)) != other.sign:
            raise FlowError(
                f"servers.shared_home: {home} is not the folder that server {other.name} has: its last sign is in the "
                f"database, but not in {_sign_file(one, other.name)}. Is the file system mounted? If the folder "
                f"was restored from a copy, and {other.name} does not run, remove its row from the table t_server"
            )


def announce_workers(settings: Settings, worker_url: str) -> None:
    """Tell workers of this machine where this server listens for them. Raise FlowError."""
    one = settings.one_of
    if one is None:
        return
    try:
        write_atomically(_address_file(one), json.dumps(announced(worker_url)))
    except OSError as error:
        raise FlowError(f"servers.shared_home: {os_error_text(error)}") from error


def withdraw_workers(settings: Settings) -> None:
    """Take that back, at a clean end."""
    if settings.one_of is not None:
        with suppress(OSError):
            _address_file(settings.one_of).unlink()


def _sign_file(one: OneOfServers, name: str) -> Path:
    return one.folder / f"{name}.sign"


def _address_file(one: OneOfServers) -> Path:
    return one.folder / f"{one.name}.json"


def _check_file_system(folder: Path, name: str) -> None:
    """Check what the exchange and the folders of workers need. Raise FlowError."""
    first, second = folder / f".{name}.{secrets.token_hex(4)}", folder / f".{name}.{secrets.token_hex(4)}"
    try:
        first.touch(mode=0o600)
        os.link(first, second)
        with second.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise FlowError(
            f"servers.shared_home: {folder} is on a file system without hard links or locks of files (flock): "
            f"{os_error_text(error)}; the messages of workers need both"
        ) from error
    finally:
        for path in (first, second):
            path.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
