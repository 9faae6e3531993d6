"""What the older key lists of another party still say: what a key has signed stays signed when another takes its place.

A list counts if the newest one follows from it, list by list: each is signed by the root key of the one before, or by
the next one that it announces. Lists from before an operator has accepted another root key are of somebody else."""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.core.access.key_list import PartyKeys, ReplacedKeyList, key_id_of, stored_key_list

_SOONER_MS = 2 * 24 * 3600 * 1000    # a key may go from the list a day before its end, and clocks differ by up to a day


def root_ids(newest: PartyKeys, replaced: Sequence[ReplacedKeyList]) -> tuple[str, ...]:
    """Return the ids of the root keys by which this party is known, the present one first: the one that its newest list
    announces, and those of older lists. `replaced`: the older lists, the oldest first."""
    older = [one.signed.root_key for one in _followed(newest, replaced)]
    others = [key_id_of(pem) for pem in dict.fromkeys(older) if pem != newest.signed.root_key]
    return tuple(dict.fromkeys([*newest.root_ids(), *others]))


def signing_keys(newest: PartyKeys, replaced: Sequence[ReplacedKeyList], use: str) -> tuple[str, ...]:
    """Return the keys (PEM) of this use whose signatures count: those of the newest list, and those of older ones that
    went when their announced time was over. One that went before may be known to somebody else.

    `replaced`: the older lists, the oldest first."""
    counts = dict.fromkeys(newest.listed(use), True)
    for one in _followed(newest, replaced):
        for key in stored_key_list(one.signed.content).keys:
            if key.use == use and key.pem not in counts:
                counts[key.pem] = key.until is not None and key.until <= one.replaced_at + _SOONER_MS
    return tuple(pem for pem, it_counts in counts.items() if it_counts)


def _followed(newest: PartyKeys, replaced: Sequence[ReplacedKeyList]) -> list[ReplacedKeyList]:
    """Return the older lists that the newest one follows from, the newest of them first."""
    found, newer = list[ReplacedKeyList](), newest.signed
    for one in reversed(replaced):
        older = one.signed
        if older.root_key != newer.root_key and stored_key_list(older.content).next_root != newer.root_key:
            break
        found.append(one)
        newer = older
    return found
