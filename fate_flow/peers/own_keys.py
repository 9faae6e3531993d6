"""The keys of this party, in files of its home: the root key, the keys that it certifies, and the signed key list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fate_flow.core.access.key_list import (
    MESSAGE,
    TLS,
    KeyList,
    ListedKey,
    SignedKeyList,
    read_key_list,
    read_signed_key_list,
)
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict
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
from fate_flow.peers.tls import load_tls_key, make_tls_key, public_pem


class OwnKeys:
    """The keys of a party, below one folder. `clock` returns milliseconds since 1970."""

    def __init__(self, party_id: str, folder: Path, message_file: Path, clock: Callable[[], int]) -> None:
        self._party_id = party_id
        self._clock = clock
        self.root_file = folder / "root.pem"
        self.root_public_file = folder / "root.pub"
        self.tls_file = folder / "tls.pem"
        self.message_file = message_file
        self.list_file = folder / "list.json"

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

    def certify(
        self, root_file: Path | None = None, number: int | None = None, next_root: Path | None = None
    ) -> SignedKeyList:
        """Sign and write the next key list; return it.

        `root_file`: of the root key, where it is kept elsewhere. `number`: of the list, instead of the next one.
        `next_root`: file of the public key that may sign later lists instead. Raises BadSettings, BadRequest."""
        root = self._root(root_file)
        before = self._last_list()
        now = self._clock()
        since = {(key.use, key.pem): key.since for key in before.keys} if before else {}
        current = (
            (TLS, public_pem(load_tls_key(self.tls_file).public_key())),
            (MESSAGE, load_private_key(self.message_file).public.pem),
        )
        key_list = KeyList(
            self._party_id, _number(before, number), now,
            tuple(ListedKey(use, pem, since.get((use, pem), now)) for use, pem in current),
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
