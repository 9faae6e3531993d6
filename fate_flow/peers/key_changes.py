"""Which key of this party is used at a moment: its key list says so, and the private keys are in files of its home.

Whoever uses a key asks again for each use, so an announced key takes the place of the present one without a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from cryptography import x509

from fate_flow.core.access.key_list import (
    MESSAGE,
    RECORD,
    TLS,
    WITNESS,
    KeyList,
    key_id_of,
    read_key_list,
    read_signed_key_list,
)
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.peers.key_files import LIST_FILE, RECORD_FILE, ROOT_FILE, TLS_FILE, WITNESS_FILE, next_to
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.site_key import PrivateKey, load_private_key, read_public_key
from fate_flow.peers.tls import (
    Leaf,
    OwnTls,
    TlsPrivateKey,
    leaf_of_chain,
    load_tls_key,
    public_pem,
    read_certificates,
    time_of,
    why_not_shown,
)

LOG = logging.getLogger(__name__)

K = TypeVar("K")
_Mark = tuple[int, int] | None


def own_tls(
    party_id: str, folder: Path, clock: Callable[[], int], certificate: Path | None = None
) -> OwnTls:  # fmt: skip
    """Return the tls key of this party, which is another one when the time of an announced key comes.

    `certificate`: the file of one that a company's authority has made of the key. Raises BadSettings."""
    change = tls_key_change(folder)
    key = change(clock()) or load_tls_key(folder / TLS_FILE)
    if certificate is None:
        return OwnTls(party_id, key, clock, change)
    return OwnTls(party_id, key, clock, change, CertificateFile(certificate))


def check_own_tls(folder: Path, certificate: Path | None, now: int) -> None:
    """Raises BadSettings if this party has no tls key, or could not show this certificate with it at this moment."""
    key = tls_key_change(folder)(now) or load_tls_key(folder / TLS_FILE)
    if certificate is not None and (why := why_not_shown(read_certificates(certificate)[0], key, time_of(now))):
        raise BadSettings(f"{certificate}: {why}")


def own_signature(folder: Path, file: Path, clock: Callable[[], int]) -> SiteSignature:
    """Return what signs with the message key of this party, which is another one when the time of an announced key
    comes. `folder` has the key list, `file` the key. Raises BadSettings."""
    change = _message_key_change(folder, file)
    return SiteSignature(change(clock()) or load_private_key(file), clock, newer=change)


def message_key(folder: Path, file: Path, now: int) -> PrivateKey:
    """Return the message key that this party uses at a moment. Raises BadSettings."""
    return _message_key_change(folder, file)(now) or load_private_key(file)


def witness_key(folder: Path, now: int) -> tuple[str, PrivateKey] | None:
    """Return what `WitnessKey` does, for one use of it. Raises BadSettings."""
    return WitnessKey(folder)(now)


def root_id_of(file: Path) -> str:
    """Return the id of the root key whose public part is in this file. Raises BadSettings."""
    try:
        return read_public_key(file.read_text(encoding="utf-8")).key_id
    except (OSError, UnicodeDecodeError, BadRequest) as error:
        raise BadSettings(f"{file}: cannot be read as the public root key") from error


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


class NamedKey:
    """A key of this party beside the id of its root key, by which others know it; may be shared by threads.

    The files are read when one of them has changed."""

    def __init__(self, use: str, folder: Path, file: Path) -> None:
        self._change = KeyChange(use, folder / LIST_FILE, file, load_private_key, lambda key: key.public.pem)
        self._files = ((folder / ROOT_FILE).with_suffix(".pub"), file)
        self._known: tuple[tuple[_Mark, ...], tuple[str, PrivateKey]] | None = None

    def __call__(self, now: int) -> tuple[str, PrivateKey] | None:
        """Return the id of the root key, and the key that is used at a moment; None if there is no such file. Raises
        BadSettings."""
        seen = tuple(map(_mark, self._files))
        if None in seen:
            return None
        known = self._known
        if known is None or known[0] != seen:
            root, file = self._files
            known = self._known = seen, (root_id_of(root), load_private_key(file))
        root_id, key = known[1]
        return root_id, self._change(now) or key


class WitnessKey(NamedKey):
    """The key by which this party cosigns logs of others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(WITNESS, folder, folder / WITNESS_FILE)


class RecordKey(NamedKey):
    """The key with which this party signs its logs, and the public keys that it has used before."""

    def __init__(self, folder: Path) -> None:
        super().__init__(RECORD, folder, folder / RECORD_FILE)
        self._folder = folder
        self._all: tuple[_Mark, tuple[bytes, ...]] | None = None

    def public(self) -> tuple[bytes, ...]:
        """Return the public keys of all files of record keys, those of replaced and announced ones included. Raises
        BadSettings."""
        seen, known = _mark(self._folder), self._all
        if known is None or known[0] != seen:         # a file that is added or replaced changes the folder
            files = sorted(self._folder.glob(f"{Path(RECORD_FILE).stem}*.pem"))
            known = self._all = seen, tuple(load_private_key(file).public.raw for file in files)
        return known[1]


class CertificateFile:
    """The certificate of this party's tls key that a company's authority has signed, and those of authorities between,
    in a file that another program may replace at any time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: _Mark = None
        self._known: tuple[x509.Certificate, ...] = ()
        self._made: tuple[TlsPrivateKey, Leaf] | None = None
        self._said = ""

    def __call__(self, key: TlsPrivateKey, now: datetime) -> Leaf | None:
        """Return what to show to other parties; None, with a line in the log, if nothing in the file is valid now: the
        certificate that this server makes itself takes its place."""
        try:
            seen = _mark(self._file)
            if seen is None or seen != self._seen:
                self._known, self._made = read_certificates(self._file), None
                self._seen = seen
            why = why_not_shown(self._known[0], key, now)
        except BadSettings as error:
            why, self._seen = error.message.removeprefix(f"{self._file}: "), None
        if why:
            if why != self._said:        # this is asked twice a second
                LOG.error("%s: %s; other parties see a certificate that this server makes itself", self._file, why)
            self._said = why
            return None
        self._said = ""
        if self._made is None or self._made[0] is not key:
            self._made = (key, leaf_of_chain(self._known, key))
        return self._made[1]


def _mark(path: Path) -> _Mark:
    """Return what is another value once a file, its mode included, has changed."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino
