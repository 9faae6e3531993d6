"""The keys of this party, in files of its home: the root key, the keys that it certifies, and the signed key list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from fate_flow.core.access.key_list import (
    MESSAGE,
    MOST_NUMBER,
    RECORD,
    TLS,
    WITNESS,
    KeyList,
    ListedKey,
    SignedKeyList,
    key_id_of,
    read_key_list,
    read_signed_key_list,
)
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict, FlowError
from fate_flow.peers.key_files import (
    LIST_FILE,
    RECORD_FILE,
    ROOT_FILE,
    TLS_FILE,
    WITNESS_FILE,
    locked,
    next_to,
    put_next,
    write_public,
)
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

_LONGER_MS = 24 * 3600 * 1000        # for which a replaced key still counts


@dataclass(frozen=True)
class _Certified:
    """A key that the root key certifies: the file of the present one, and what reads and makes such files."""

    file: Path
    public: Callable[[Path], str]                # of the private key in a file, in PEM
    make: Callable[[Path], object]
    has_to_be: bool = True                       # otherwise a home of an earlier release has none

    @property
    def next_file(self) -> Path:
        return next_to(self.file)


class OwnKeys:
    """The keys of a party, below one folder. `clock` returns milliseconds since 1970."""

    def __init__(self, party_id: str, folder: Path, message_file: Path, clock: Callable[[], int]) -> None:
        self._party_id = party_id
        self._clock = clock
        self._folder = folder
        self.root_file = folder / ROOT_FILE
        self.root_public_file = self.root_file.with_suffix(".pub")
        self.tls_file = folder / TLS_FILE
        self.message_file = message_file
        self.list_file = folder / LIST_FILE
        self._certified = {
            TLS: _Certified(self.tls_file, _tls_pem, make_tls_key),
            MESSAGE: _Certified(message_file, _pem, self._make_like_present),
            RECORD: _Certified(folder / RECORD_FILE, _pem, make_private_key, has_to_be=False),
            WITNESS: _Certified(folder / WITNESS_FILE, _pem, make_private_key, has_to_be=False),
        }

    def make(self, kind: str = ED25519) -> list[Path]:
        """Make what is missing; return the new files. `kind`: of a new message key.

        Raises Conflict if nothing is missing, or if another command changes the keys; BadSettings if a file cannot be
        used, or if only the root key, which is not here, could sign the new keys."""
        with locked(self._folder, makes_folder=True):
            return self._make(kind)

    def _make(self, kind: str) -> list[Path]:
        made = []
        for use, one in self._certified.items():
            if not one.file.exists():
                if use == MESSAGE:
                    make_private_key(one.file, kind)
                else:
                    one.make(one.file)
                made.append(one.file)
        if not self.root_public_file.exists():
            if not self.root_file.exists():
                make_private_key(self.root_file)
                made.append(self.root_file)
            write_public(self.root_public_file, load_private_key(self.root_file).public.pem)
            made.append(self.root_public_file)
        if made or not self.list_file.exists():
            self._write(self._root(None), self.last_list())
            return [*made, self.list_file]
        raise Conflict(
            f"{self.root_public_file.parent}: every key is there already, and all other parties have the public ones. "
            "To change one while they are connected: fate_flow key announce --use USE"
        )

    def announce(self, use: str, wait_ms: int, root_file: Path | None = None) -> SignedKeyList:
        """Make the next key of this use; sign and write a key list that says from when on it is used, and return it.

        The present key counts for a day longer. If that fails, nothing is announced. Raises Conflict if a key of this
        use is announced already, or if another command changes the keys; BadSettings, BadRequest."""
        with locked(self._folder):
            return self._announce(use, wait_ms, root_file)

    def _announce(self, use: str, wait_ms: int, root_file: Path | None) -> SignedKeyList:
        before, now, one = self.last_list(), self._clock(), self._certified[use]
        root = self._root(root_file)             # before a key is made that nobody could certify
        if before is None:
            raise BadSettings(f"{self.list_file}: there is no key list of this party: fate_flow key make -c CONF")
        if one.next_file.exists():
            self._take_next(use, before, now)
        is_new = not one.next_file.exists()      # otherwise a command has ended before it could announce its key
        if is_new:
            one.make(one.next_file)
        try:
            return self._write(root, before, announced={use: now + wait_ms})
        except FlowError:
            if is_new and self.last_list() == before:
                one.next_file.unlink(missing_ok=True)
            raise

    def _take_next(self, use: str, before: KeyList, now: int) -> None:
        """Give the next key the name of the present one if it is in use by now. Raises Conflict if its time has not
        come."""
        one, used = self._certified[use], before.in_use(use, now)
        pem = one.public(one.next_file)
        if pem not in before.valid(use, now):
            return
        if used is None or used.pem != pem:
            raise Conflict(f"{one.next_file}: the next {use} key is announced already, and its time has not come")
        put_next(one.file, key_id_of(one.public(one.file)))

    def _make_like_present(self, path: Path) -> None:
        """Make a message key of the kind that the present one has: other parties can check its signatures."""
        make_private_key(path, load_private_key(self.message_file).public.kind)

    def certify(
        self, root_file: Path | None = None, number: int | None = None, next_root: Path | None = None
    ) -> SignedKeyList:
        """Sign and write the next key list; return it.

        `root_file`: of the root key, where it is kept elsewhere. `number`: of the list, instead of the next one.
        `next_root`: file of the public key that may sign later lists instead. Raises Conflict if another
        command changes the keys; BadSettings, BadRequest."""
        with locked(self._folder):
            return self._write(self._root(root_file), self.last_list(), number, next_root)

    def _write(
        self, root: PrivateKey, before: KeyList | None, number: int | None = None, next_root: Path | None = None,
        announced: Mapping[str, int] = MappingProxyType({}),
    ) -> SignedKeyList:  # fmt: skip
        """`announced`: the uses of next keys that are announced now, and from when on they are used."""
        now = self._clock()
        keys = [
            key for use, one in self._certified.items() if one.has_to_be or one.file.exists()
            for key in _listed(use, one, before, now, announced.get(use))
        ]  # fmt: skip
        key_list = KeyList(
            self._party_id, _number(before, number), now, tuple(keys),
            _read_public_file(next_root).pem if next_root else None,
        )
        signed = sign_key_list(root, key_list)
        check_key_list(signed)                   # other parties, and the next command, have to be able to read it
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
        before = self.last_list()
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

    def last_list(self) -> KeyList | None:
        """Return what the newest key list says; None if there is none. Raises BadSettings, BadRequest."""
        return read_key_list(self.signed_list().content) if self.list_file.exists() else None


def _listed(
    use: str, one: _Certified, before: KeyList | None, now: int, next_since: int | None
) -> Iterator[ListedKey]:  # fmt: skip
    """Yield the present key and the next one, if that is announced; `next_since`: if it is announced now."""
    known = {key.pem: key for key in before.keys if key.use == use} if before else {}
    pem = one.public(one.file)
    present = known.get(pem) or ListedKey(use, pem, now)
    next_pem = one.public(one.next_file) if one.next_file.exists() else ""
    if next_pem in known:
        yield from (present, known[next_pem])
    elif next_pem and next_since is not None:
        yield from (replace(present, until=next_since + _LONGER_MS), ListedKey(use, next_pem, next_since))
    else:
        yield replace(present, until=None)       # no other key takes its place


def _tls_pem(path: Path) -> str:
    return public_pem(load_tls_key(path).public_key())


def _pem(path: Path) -> str:
    return load_private_key(path).public.pem


def _number(before: KeyList | None, wanted: int | None) -> int:
    next_number = before.number + 1 if before else 1
    if max(wanted or 0, next_number) > MOST_NUMBER:
        raise BadRequest(f"number: {max(wanted or 0, next_number)} is too large; the largest one is {MOST_NUMBER}")
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
