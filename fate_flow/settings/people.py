"""The clients of this party by name: people and robots, each with a key of its own and with client roles.

Their keys are in `<home>/keys/people.yaml`, which only the server's user can read. A signature is an HMAC, so the
server needs the secrets themselves; that is why they are not in the database. Commands replace the file as a whole, and
each process of the server reads it again once it has changed: a revocation holds from the next request on.

The key of the configuration or of `clients.yaml` (`client_keys.py`) belongs to the client `owner`, who has all roles.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from fate_flow.core.access.client_roles import ALL_ROLES, ClientRole, names_of, roles_named
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict, NotFound
from fate_flow.core.model.grammar import shown
from fate_flow.settings.client_keys import ClientKeys

OWNER = "owner"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,31}")
_NAME_PARTS = "2 to 32 small letters, digits and - . _, the first one a letter or digit"
_KEYS = ("name", "app_key", "secret_key", "roles", "made", "revoked")
_HEAD = """\
# The keys of this party's clients, written by `fate_flow client`; times in milliseconds since 1970. The server reads
# this file again when it has changed. Keep the entries of revoked keys: their names stay taken.
"""


@dataclass(frozen=True)
class Client:
    """A person or robot, with one key; somebody whose key was renewed is there once for each key."""

    name: str
    app_key: str
    secret_key: str = field(repr=False)      # empty once it is revoked
    roles: ClientRole
    made: int = 0                            # milliseconds since 1970; 0: not known
    revoked: int = 0                         # 0: valid

    @property
    def is_valid(self) -> bool:
        return not self.revoked


def people_file(home: Path) -> Path:
    return home / "keys" / "people.yaml"


class People:
    """The clients of one home, as they are at this moment. Threads may share it."""

    def __init__(self, home: Path, owner: ClientKeys) -> None:
        self._path = people_file(home)
        self._owner = owner
        self._read: tuple[object, Mapping[str, Client]] = (None, {})

    def client_with(self, app_key: str) -> Client | None:
        """Return the client with this app key, also if the key was revoked. Raise BadSettings for an unusable file."""
        stamp, known = self._read
        now = _stamp_at(self._path)
        if now != stamp or stamp is None:
            stamp, clients = _read(self._path)
            known = {one.app_key: one for one in with_owner(clients, self._owner)}
            self._read = stamp, known
        return known.get(app_key)


def with_owner(clients: Sequence[Client], owner: ClientKeys | None) -> tuple[Client, ...]:
    """Return all clients: the others, and the owner, unless the owner's present key was revoked."""
    if owner is None or any(one.app_key == owner.app_key for one in clients):
        return tuple(clients)
    return (*clients, Client(OWNER, owner.app_key, owner.secret_key, ALL_ROLES))


def read_people(home: Path) -> tuple[Client, ...]:
    """Return the clients of the file, without the owner; none if there is no file. Raise BadSettings."""
    return _read(people_file(home))[1]


# ---------------------------------------------------------------------- changes


def add_client(home: Path, name: str, roles: ClientRole, now: int) -> Client:
    """Make the key of a new client. Raise BadRequest; Conflict for a name that was ever used; BadSettings."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f"NAME: {shown(name)} is not {_NAME_PARTS}")
    with _changed(home) as clients:
        if name == OWNER or any(one.name == name for one in clients):
            raise Conflict(f"there is a client {name} already; fate_flow client renew {name} makes a new key for it")
        made = _made(name, roles, now)
        clients.append(made)
    return made


def renew_client(home: Path, name: str, roles: ClientRole | None, now: int) -> Client:
    """Make another key for a known client, with these roles or those it had; its present key is revoked.

    Raise NotFound; Conflict for the owner; BadSettings."""
    if name == OWNER:
        raise Conflict(
            f"the key of {OWNER} is http_app_key in the configuration (authentication.client), or in keys/clients.yaml "
            "of the server's home: change it there, or remove that file, and restart the server"
        )
    with _changed(home) as clients:
        had = _newest(clients, name)
        made = _made(name, roles or had.roles, now)
        clients[:] = [*(_revoked(one, now) if one.name == name else one for one in clients), made]
    return made


def revoke_client(home: Path, name: str, owner: ClientKeys | None, now: int) -> None:
    """Revoke the key of a client, or that of the owner. Raise NotFound; Conflict if it is revoked; BadSettings."""
    with _changed(home) as clients:
        had = _newest(with_owner(clients, owner), name)
        if not had.is_valid:
            raise Conflict(f"client {name} has no key any more")
        if name == OWNER:
            clients.append(_revoked(had, now))
        clients[:] = [_revoked(one, now) if one.name == name else one for one in clients]


def newest_of(clients: Sequence[Client]) -> tuple[Client, ...]:
    """Return each client once, with its newest key."""
    return tuple({one.name: one for one in clients}.values())


def _newest(clients: Sequence[Client], name: str) -> Client:
    found = next((one for one in newest_of(clients) if one.name == name), None)
    if found is None:
        raise NotFound(f"there is no client {shown(name)}; fate_flow client list shows all")
    return found


def _made(name: str, roles: ClientRole, now: int) -> Client:
    return Client(name, f"{name}-{secrets.token_hex(6)}", secrets.token_hex(32), roles, now)


def _revoked(client: Client, now: int) -> Client:
    return replace(client, secret_key="", revoked=client.revoked or now)


# ---------------------------------------------------------------------- the file


@contextmanager
def _changed(home: Path) -> Iterator[list[Client]]:
    """Yield the clients of the file for changes, and replace the file if the block ends well. One process at a time."""
    path = people_file(home)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise BadSettings(f"{path}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clients = list(_read(path)[1])
        yield clients
        _write(path, clients)
    finally:
        os.close(lock)


def _write(path: Path, clients: Sequence[Client]) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    document = {"keys": [_as_entry(one) for one in clients]}
    try:
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(_HEAD + yaml.safe_dump(document, sort_keys=False))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        _sync(path.parent)              # a revocation must not be lost with the power
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise BadSettings(f"{path}: cannot be written: {error.strerror}") from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _as_entry(client: Client) -> dict[str, Any]:
    return {
        "name": client.name, "app_key": client.app_key, "secret_key": client.secret_key,
        "roles": list(names_of(client.roles)), "made": client.made, "revoked": client.revoked,
    }  # fmt: skip


def _stamp_at(path: Path) -> object:
    """Return what differs for every content of the file; that of a missing file, too. Raise BadSettings."""
    try:
        return _stamp(os.stat(path))
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from error


def _stamp(found: os.stat_result) -> object:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(path: Path) -> tuple[object, tuple[Client, ...]]:
    """Return the stamp of the file, and its clients. Raise BadSettings for an unusable file."""
    try:
        with path.open(encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            document = yaml.safe_load(file)
    except FileNotFoundError:
        return "missing", ()
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: is not YAML") from error
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise BadSettings(f"{path}: is of mode {mode:04o}, so other users could use the keys of the clients: chmod 600")
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or document.keys() != {"keys"}:
        raise BadSettings(f"{path}: is not a mapping with the one key `keys`, a list")
    return _stamp(found), tuple(_client(entry, f"{path}: keys[{place}]") for place, entry in enumerate(listed))


def _client(entry: object, where: str) -> Client:
    if not isinstance(entry, dict) or entry.keys() != set(_KEYS):
        raise BadSettings(f"{where}: is not a mapping with the keys {', '.join(_KEYS)}")
    for key, is_right in _CHECKS.items():
        if not is_right(entry[key]):
            raise BadSettings(f"{where}: {key} is not what fate_flow client writes")
    try:
        roles = roles_named(entry["roles"])
    except BadRequest as error:
        raise BadSettings(f"{where}: roles: {error.message}") from error
    if not entry["revoked"] and not entry["secret_key"]:
        raise BadSettings(f"{where}: has no secret_key and is not revoked")
    return Client(entry["name"], entry["app_key"], entry["secret_key"], roles, entry["made"], entry["revoked"])


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "name": lambda value: isinstance(value, str) and _NAME.fullmatch(value) is not None,
    "app_key": lambda value: isinstance(value, str) and bool(value),
    "secret_key": lambda value: isinstance(value, str),
    "roles": lambda value: isinstance(value, list),
    "made": _is_time,
    "revoked": _is_time,
}
