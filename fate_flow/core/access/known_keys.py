"""The keys of another party, present and past, with the time for which its lists here had each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fate_flow.core.access.key_list import KeyList, PartyKeys, ReplacedKeyList, SignedKeyList, key_id_of, read_key_list

_ROOT = "root"


def known_keys(newest: PartyKeys, replaced: Iterable[ReplacedKeyList]) -> list[dict[str, Any]]:
    """Return what operators see of each key that was ever on a list of a party here, oldest first.

    `replaced`: its older lists, oldest first. `use`: that of the list, or "root". `from` and `until` are those of the
    last list that has the key: since when the party uses it, and its end, if any; a root key has the time at which it
    signed that list. `listed_from`: when the first list with it was saved here; `listed_until`: when a list without it
    was; None: the newest list has it. Times are milliseconds since 1970."""
    lists: list[tuple[SignedKeyList, int, int | None]] = [
        *((one.signed, one.received_at, one.replaced_at) for one in replaced), (newest.signed, newest.received_at, None)
    ]
    rows: list[dict[str, Any]] = []
    before: dict[tuple[str, str], dict[str, Any]] = {}       # of the keys on the list before
    for signed, received_at, replaced_at in lists:
        now: dict[tuple[str, str], dict[str, Any]] = {}
        for use, pem, since, until in _keys_of(signed, read_key_list(signed.content)):
            row = before.get((use, pem))
            if row is None:              # also a key that was away meanwhile
                row = {"use": use, "key_id": key_id_of(pem), "listed_from": received_at}
                rows.append(row)
            row.update({"from": since, "until": until, "listed_until": replaced_at})
            now[use, pem] = row
        before = now
    return rows


def _keys_of(signed: SignedKeyList, listed: KeyList) -> Iterator[tuple[str, str, int, int | None]]:
    yield _ROOT, signed.root_key, listed.issued_at, None
    for key in listed.keys:
        yield key.use, key.pem, key.since, key.until
