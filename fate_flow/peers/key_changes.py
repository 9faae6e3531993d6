"""Which key of this party is used at a moment: its key list says so, and the private keys are in files of its home.

Whoever uses a key asks again for each use, so an announced key takes the place of the present one without a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from fate_flow.core.access.key_list import MESSAGE, TLS, KeyList, key_id_of, read_key_list, read_signed_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.peers.key_files import LIST_FILE, TLS_FILE, next_to
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.site_key import PrivateKey, load_private_key
from fate_flow.peers.tls import OwnTls, TlsPrivateKey, load_tls_key, public_pem

LOG = logging.getLogger(__name__)

K = TypeVar("K")
_Mark = tuple[int, int] | None


def own_tls(party_id: str, folder: Path, clock: Callable[[], int]) -> OwnTls:
    """Return the tls key of this party, which is another one when the time of an announced key comes. Raises
    BadSettings."""
    change = tls_key_change(folder)
    return OwnTls(party_id, change(clock()) or load_tls_key(folder / TLS_FILE), clock, change)


def own_signature(folder: Path, file: Path, clock: Callable[[], int]) -> SiteSignature:
    """Return what signs with the message key of this party, which is another one when the time of an announced key
    comes. `folder` has the key list, `file` the key. Raises BadSettings."""
    change = _message_key_change(folder, file)
    return SiteSignature(change(clock()) or load_private_key(file), clock, newer=change)


def message_key(folder: Path, file: Path, now: int) -> PrivateKey:
    """Return the message key that this party uses at a moment. Raises BadSettings."""
    return _message_key_change(folder, file)(now) or load_private_key(file)


def tls_key_change(folder: Path) -> KeyChange[TlsPrivateKey]:
    file = folder / TLS_FILE
    return KeyChange(TLS, folder / LIST_FILE, file, load_tls_key, lambda key: public_pem(key.public_key()))


def _message_key_change(folder: Path, file: Path) -> KeyChange[PrivateKey]:
    return KeyChange(MESSAGE, folder / LIST_FILE, file, load_private_key, lambda key: key.public.pem)


class KeyChange(Generic[K]):
    """Says which key of one use is used at a moment; may be shared by threads.

    The files are read when one of them has changed. If they cannot be used, that is logged once, and no key takes the
    place of another one."""

    def __init__(
        self, use: str, list_file: Path, file: Path, load: Callable[[Path], K], pem_of: Callable[[K], str]
    ) -> None:
        """`file` is that of the present key. `load` reads a private key, and may raise BadSettings."""
        self._use = use
        self._list_file = list_file
        self._files = (file, next_to(file))
        self._load = load
        self._pem_of = pem_of
        self._seen: tuple[_Mark, ...] = ()
        self._known: tuple[KeyList, dict[str, K]] | None = None
        self._said = ""

    def __call__(self, now: int) -> K | None:
        """Return None if nothing is known: the key that was used before stays."""
        seen = tuple(_mark(path) for path in (self._list_file, *self._files))
        if seen != self._seen:
            self._seen = seen
            self._known = self._read()
        if self._known is None:
            return None
        key_list, keys = self._known
        used = key_list.in_use(self._use, now)
        if used is None:
            return None
        if used.pem not in keys:
            files = " and ".join(map(str, self._files))
            self._say(
                f"{self._list_file} says that key {key_id_of(used.pem)[:16]} is used now, which is not in {files}; "
                "fate_flow key certify lists the keys that are there"
            )
            return None
        self._said = ""
        return keys[used.pem]

    def _read(self) -> tuple[KeyList, dict[str, K]] | None:
        try:
            found = read_key_list(read_signed_key_list(self._list_file.read_text(encoding="utf-8")).content)
            keys = [self._load(path) for path in self._files if path.exists()]
        except FileNotFoundError:
            if self._known is not None:
                self._say(f"{self._list_file} is not there any more")
            return None                  # a home that has no list yet
        except BadSettings as error:     # names the file
            self._say(error.message)
            return None
        except OSError as error:
            self._say(os_error_text(error))
            return None
        except (BadRequest, ValueError) as error:
            self._say(f"{self._list_file}: {error}")
            return None
        return found, {self._pem_of(key): key for key in keys}

    def _say(self, text: str) -> None:
        if text != self._said:           # a key is asked for with each request
            self._said = text
            LOG.error("the %s key of this party stays as it is: %s", self._use, text)


def _mark(path: Path) -> _Mark:
    """Return what is another value once a file, its mode included, has changed."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino
