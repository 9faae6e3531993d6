"""What is recorded about a job at one party, beside what the log of another party says of the same messages.

Each entry is the word of the party whose log has it. A message that both logs have is the word of both, with the times
of both sides; what the other log alone has is put where it stands there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fate_flow.core.record.canonical import canonical
from fate_flow.core.record.comparison import Place
from fate_flow.core.record.entry import Kind, log_with
from fate_flow.core.record.shown import ShownEntry, There

_BESIDE = {
    Kind.SENT: (Kind.RECEIVED,), Kind.ANSWERED: (Kind.RECEIVED,), Kind.RECEIVED: (Kind.SENT, Kind.ANSWERED),
}  # fmt: skip
"""The kinds of entries that the other side has of the message of an entry; the first one that is there is shown."""

Entries = Mapping[Place, Mapping[str, Any]]


def with_other_side(
    entries: Sequence[ShownEntry], own: str, party_id: str, theirs: Entries, job_id: str
) -> tuple[ShownEntry, ...]:  # fmt: skip
    """Return the entries about a job, with what a party has in its log about party `own`."""
    listed = {place: said for place, said in sorted(theirs.items()) if said.get("job") == job_id and "number" in said}
    by_number: dict[tuple[object, object], Place] = {}
    for place, said in listed.items():
        by_number.setdefault((said["number"], said["kind"]), place)
    ours, alone = {one.said.get("number") for one in entries if one.other == party_id}, dict(listed)
    found: list[ShownEntry] = []
    for one in entries:
        beside = _beside(one, by_number) if one.other == party_id and not one.there else None
        if beside is None:
            found.append(one)
            continue
        found += _before(alone, beside, ours, own, party_id)
        found.append(replace(one, there=_there(one, party_id, beside, listed[beside])))
    found += _before(alone, None, ours, own, party_id)
    return tuple(found)


def _beside(one: ShownEntry, by_number: Mapping[tuple[object, object], Place]) -> Place | None:
    kinds = next((kinds for kind, kinds in _BESIDE.items() if kind == one.kind), ())
    places = (by_number.get((one.said.get("number"), kind)) for kind in kinds)
    return next((place for place in places if place is not None), None)


def _there(one: ShownEntry, party_id: str, place: Place, said: Mapping[str, Any]) -> There:
    epoch, index = place
    keys = ["request"]
    if one.kind == Kind.ANSWERED and one.said.get("acknowledged") is True:
        keys.append("answer")                # of one that is not acknowledged, the other side may know another one
    both = ((one.said.get(key), said.get(key)) for key in keys)
    return There(party_id, epoch, index, int(said["at"]), all(None in pair or pair[0] == pair[1] for pair in both))


def _before(
    alone: dict[Place, Mapping[str, Any]], until: Place | None, ours: Iterable[object], own: str, party_id: str
) -> Iterator[ShownEntry]:  # fmt: skip
    """Yield, and take away, the other side's entries before this place whose messages are not in the own log."""
    for place in [one for one in alone if until is None or one < until]:
        said = alone.pop(place)
        if said["number"] not in ours:
            epoch, index = place
            yield ShownEntry(log_with(own), epoch, index, canonical(dict(said)).decode(), said, of=party_id)
