"""The keys that clients of this party sign with: from the configuration, or made at the first start of a home.

Made keys are in `<home>/keys/clients.yaml`, which only the server's user can read: the server and `flow` on the same
machine find them there. A home in which a server has already run without keys gets none until its configuration
requires them.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from fate_flow.core.model.errors import BadSettings

_KEY = re.compile(r"[A-Za-z0-9._-]{8,100}")
_KEY_PARTS = "8 to 100 letters, digits and - . _"
_MADE_BY_A_START = ("run/secret", "run/lineage", "fate_flow.sqlite")
_HEAD = """\
# Made at the first start of the server. Clients of this party sign their requests with these keys. `flow` on this
# machine reads them from here. On other machines, run: flow init --ip ADDRESS --port PORT --app-key KEY
# --secret-key SECRET. Anybody with these keys can send every request of a client. To make new keys, remove this file
# and restart the server with authentication.client.switch: true in its configuration.
"""


@dataclass(frozen=True)
class ClientKeys:
    """The keys with which clients sign their requests."""

    app_key: str
    secret_key: str = field(repr=False)


def keys_file(home: Path) -> Path:
    return home / "keys" / "clients.yaml"


def choose_client_keys(
    home: Path, switch: bool | None, app_key: str, secret_key: str
) -> tuple[ClientKeys | None, bool]:
    """Return the keys of clients, None if clients need not sign, and whether the next start makes the file with them.

    `switch` and keys are those of the configuration. Without a switch, clients sign if the first start of the home
    required it; a new home requires it from its first start on. Raise BadSettings."""
    has_file, is_new = _look_at(home)
    if switch is False or (switch is None and not has_file and not is_new):
        return None, False
    if not app_key and not secret_key:
        return read_client_keys(home), not has_file
    return ClientKeys(app_key, secret_key), switch is None and not has_file


def check_client_keys(keys: ClientKeys) -> None:
    """Raise BadSettings for invalid keys."""
    for name, value in (("http_app_key", keys.app_key), ("http_secret_key", keys.secret_key)):
        if not _KEY.fullmatch(value):
            raise BadSettings(
                f"authentication.client.{name}: is not {_KEY_PARTS}; without both, the server makes keys of its own"
            )


def is_new_home(home: Path) -> bool:
    """Return whether no server has ever run in this home. Raise BadSettings."""
    return _look_at(home)[1]


def _look_at(home: Path) -> tuple[bool, bool]:
    """Return whether the file with keys exists, and whether no server has ever run in this home."""
    try:
        return keys_file(home).exists(), not any((home / name).exists() for name in _MADE_BY_A_START)
    except OSError as error:
        raise BadSettings(f"{error.filename}: cannot be checked: {error.strerror}") from error


def read_client_keys(home: Path) -> ClientKeys | None:
    """Return the keys made for this home; None if there are none. Raise BadSettings for an unusable file."""
    path = keys_file(home)
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            document = yaml.safe_load(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: is not YAML") from error
    if mode & 0o077:
        raise BadSettings(f"{path}: is of mode {mode:04o}, so other users could use the keys of the clients: chmod 600")
    found = document if isinstance(document, dict) else {}
    app_key, secret_key = (str(found.get(name)) for name in ("http_app_key", "http_secret_key"))
    if not (_KEY.fullmatch(app_key) and _KEY.fullmatch(secret_key)):
        raise BadSettings(f"{path}: http_app_key and http_secret_key must each be {_KEY_PARTS}")
    return ClientKeys(app_key, secret_key)


def make_client_keys(home: Path, given: ClientKeys | None = None) -> ClientKeys:
    """Return the keys of this home; make them if there are none. Several processes at once all get the same keys.

    `given`: keys to store instead of new ones. Raise BadSettings."""
    path = keys_file(home)
    keys = given or ClientKeys(f"flow-{secrets.token_hex(6)}", secrets.token_hex(32))
    values = {"http_app_key": keys.app_key, "http_secret_key": keys.secret_key}
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(_HEAD + yaml.safe_dump(values, sort_keys=False))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)                     # never replaces an existing file
    except OSError as error:
        raise BadSettings(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            draft.unlink()
    found = read_client_keys(home)
    if found is None:
        raise BadSettings(f"{path}: disappeared right after it was made")
    return found
