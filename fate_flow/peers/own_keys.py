"""The keys of this party, in files of its home: the root key, the keys that it certifies, and the signed key list."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fate_flow.core.access.key_list import (
    MESSAGE,
    TLS,
    KeyList,
    ListedKey,
    SignedKeyList,
    key_id_of,
    read_key_list,
    read_signed_key_list,
)
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict, FlowError
from fate_flow.peers.key_files import write_public
from fate_flow.peers.key_lists import check_key_list, sign_key_list
from fate_flow.peers.site_key import (
    ED25519,
    PrivateKey,
    PublicKey,
    load_private_key,
    make_private_key,
    read_public_key,
)
from fate_flow.peers.tls import OwnTls, TlsPrivateKey, load_tls_key, make_tls_key, public_pem

_TLS_FILE, _NEXT_TLS_FILE, _LIST_FILE = "tls.pem", "tls.next.pem", "list.json"
_LONGER_MS = 24 * 3600 * 1000        # for which a replaced tls key still counts


class OwnKeys:
    """The keys of a party, below one folder. `clock` returns milliseconds since 1970."""

    def __init__(self, party_id: str, folder: Path, message_file: Path, clock: Callable[[], int]) -> None:
        self._party_id = party_id
        self._clock = clock
        self.root_file = folder / "root.pem"
        self.root_public_file = folder / "root.pub"
        self.tls_file = folder / _TLS_FILE
        self.next_tls_file = folder / _NEXT_TLS_FILE
        self.message_file = message_file
        self.list_file = folder / _LIST_FILE

    def make(self, kind: str = ED25519) -> list[Path]:
        """Make what is missing; return the new files. `kind`: of a new message key.

        Raises Conflict if nothing is missing; BadSettings if a file cannot be used, or if only the root key, which is
        not here, could sign the new keys."""
        made = []
        if not self.message_file.exists():
            make_private_key(self.message_file, kind)
            made.append(self.message_file)
        if not self.tls_file.exists():
            make_tls_key(self.tls_file)
            made.append(self.tls_file)
        if not self.root_public_file.exists():
            if not self.root_file.exists():
                make_private_key(self.root_file)
                made.append(self.root_file)
            write_public(self.root_public_file, load_private_key(self.root_file).public.pem)
            made.append(self.root_public_file)
        if made or not self.list_file.exists():
            self.certify()
            return [*made, self.list_file]
        raise Conflict(
            f"{self.root_public_file.parent}: every key is there already, and all other parties have the public ones. "
            "To change the tls or message key, move its file away first"
        )

    def announce(self, wait_ms: int, root_file: Path | None = None) -> SignedKeyList:
        """Make the next tls key; sign and write a key list that says from when on it is used, and return the list.

        The present key counts for a day longer. Raises Conflict if a key is announced already; BadSettings."""
        before, now = self._last_list(), self._clock()
        root = self._root(root_file)             # before a key is made that nobody could certify
        if before is None:
            raise BadSettings(f"{self.list_file}: there is no key list of this party: fate_flow key make -c CONF")
        if self.next_tls_file.exists():
            self._take_next(before, now)
        make_tls_key(self.next_tls_file)
        return self._write(root, before, None, None, now + wait_ms)

    def _take_next(self, before: KeyList, now: int) -> None:
        """Give the key that is in use by now the name of the present one. Raises Conflict if its time has not come."""
        pem = public_pem(load_tls_key(self.next_tls_file).public_key())
        used = before.in_use(TLS, now)
        if used is None or used.pem != pem:
            raise Conflict(f"{self.next_tls_file}: the next tls key is announced already, and its time has not come")
        old = public_pem(load_tls_key(self.tls_file).public_key())
        os.replace(self.tls_file, self.tls_file.with_name(f"tls.{key_id_of(old)[:16]}.pem"))
        os.replace(self.next_tls_file, self.tls_file)

    def certify(
        self, root_file: Path | None = None, number: int | None = None, next_root: Path | None = None
    ) -> SignedKeyList:
        """Sign and write the next key list; return it.

        `root_file`: of the root key, where it is kept elsewhere. `number`: of the list, instead of the next one.
        `next_root`: file of the public key that may sign later lists instead. Raises BadSettings, BadRequest."""
        return self._write(self._root(root_file), self._last_list(), number, next_root, None)

    def _write(
        self, root: PrivateKey, before: KeyList | None, number: int | None, next_root: Path | None,
        next_since: int | None,
    ) -> SignedKeyList:  # fmt: skip
        """`next_since`: from when on the next tls key is used, if it is new."""
        now = self._clock()
        known = {(key.use, key.pem): key for key in before.keys} if before else {}
        files = [self.tls_file, *([self.next_tls_file] if self.next_tls_file.exists() else [])]
        tls = [public_pem(load_tls_key(file).public_key()) for file in files]
        keys = [
            *(known.get((TLS, pem)) or ListedKey(TLS, pem, now if pem == tls[0] else next_since or now) for pem in tls),
            _known_or_new(known, MESSAGE, load_private_key(self.message_file).public.pem, now),
        ]
        if next_since is not None:
            keys[0] = replace(keys[0], until=next_since + _LONGER_MS)
        key_list = KeyList(
            self._party_id, _number(before, number), now, tuple(keys),
            _read_public_file(next_root).pem if next_root else None,
        )
        signed = sign_key_list(root, key_list)
        write_public(self.list_file, signed.text())
        write_public(self.root_public_file, root.public.pem)
        return signed

    def root(self) -> PublicKey:
        """Return the public root key. Raises BadSettings."""
        path = self.root_public_file
        if not path.exists():
            raise BadSettings(f"{path}: there is no root key of this party: fate_flow key make -c CONF")
        return _read_public_file(path)

    def signed_list(self) -> SignedKeyList:
        """Return the newest key list of this party. Raises BadSettings."""
        try:
            text = self.list_file.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise BadSettings(
                f"{self.list_file}: there is no key list of this party: fate_flow key make -c CONF"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise BadSettings(f"{self.list_file}: cannot be read") from error
        try:
            signed = read_signed_key_list(text)
            found, _ = check_key_list(signed)
        except BadRequest as error:
            raise BadSettings(f"{self.list_file}: {error.message}") from error
        if found.party_id != self._party_id:
            raise BadSettings(f"{self.list_file}: is the key list of party {found.party_id}")
        return signed

    def _root(self, file: Path | None) -> PrivateKey:
        """Return the root key that may sign the next list. Raises BadSettings."""
        before = self._last_list()
        trusted = {self.root().pem, *([before.next_root] if before else [])}
        if file is None and not self.root_file.exists():
            raise BadSettings(
                f"{self.root_file}: is not here; where the root key is, run: "
                "fate_flow key certify -c CONF --root FILE"
            )
        found = load_private_key(file or self.root_file)
        if found.public.pem not in trusted:
            raise BadSettings(
                f"{file or self.root_file}: is not the root key of this party, and no list announces it (--next-root): "
                "all other parties would refuse its lists"
            )
        return found

    def _last_list(self) -> KeyList | None:
        return read_key_list(self.signed_list().content) if self.list_file.exists() else None


def own_tls(party_id: str, folder: Path, clock: Callable[[], int]) -> OwnTls:
    """Return the tls key of this party, which is another one when the time of an announced key comes. Raises
    BadSettings."""
    change = TlsKeyChange(folder)
    return OwnTls(party_id, change(clock()) or load_tls_key(folder / _TLS_FILE), clock, change)


class TlsKeyChange:
    """Says which tls key in the files of a folder is used at a moment; the files are read when the key list changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: tuple[int, int] | None = None          # of the file of the key list: time and inode
        self._list: KeyList | None = None
        self._keys: dict[str, TlsPrivateKey] = {}

    def __call__(self, now: int) -> TlsPrivateKey | None:
        """Return None if the key list or the file of the key is not there or cannot be read: nothing changes then."""
        try:
            stat = (self._folder / _LIST_FILE).stat()
            if self._seen != (stat.st_mtime_ns, stat.st_ino):
                self._read()
                self._seen = (stat.st_mtime_ns, stat.st_ino)
        except (OSError, ValueError, FlowError):
            return None
        used = self._list.in_use(TLS, now) if self._list else None
        return self._keys.get(used.pem) if used else None

    def _read(self) -> None:
        signed = read_signed_key_list((self._folder / _LIST_FILE).read_text(encoding="utf-8"))
        files = [path for name in (_TLS_FILE, _NEXT_TLS_FILE) if (path := self._folder / name).exists()]
        keys = [load_tls_key(path) for path in files]
        self._list = read_key_list(signed.content)
        self._keys = {public_pem(key.public_key()): key for key in keys}


def _known_or_new(known: Mapping[tuple[str, str], ListedKey], use: str, pem: str, now: int) -> ListedKey:
    return known.get((use, pem)) or ListedKey(use, pem, now)


def _number(before: KeyList | None, wanted: int | None) -> int:
    next_number = before.number + 1 if before else 1
    if wanted is not None and wanted < next_number:
        raise BadRequest(f"number: {wanted} is too small, the next one is {next_number}; others refuse older numbers")
    return wanted or next_number


def _read_public_file(path: Path) -> PublicKey:
    """Read a public key, also out of the file of the private one. Raises BadSettings."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: cannot be read") from error
    try:
        return load_private_key(path).public if "PRIVATE KEY" in text else read_public_key(text)
    except BadRequest as error:
        raise BadSettings(f"{path}: {error.message}") from error
