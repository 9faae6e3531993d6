"""What has to hold for the records of all parties once everything is over: each log is whole, and no comparison accuses
anybody who has not lied, whatever was lost, repeated, late or dead."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

from fate_flow.core.record.comparison import Finding, Outcome, Side, compare
from fate_flow.core.record.entry import log_with, read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.tree import leaf_hash, root_of
from fate_flow.services.record.sealing import seal_new

if TYPE_CHECKING:
    from tests.simulation.world.party import SimParty
    from tests.simulation.world.world import World

_ALL = 1 << 40


def check_records(world: World) -> None:
    """Fail the world for a log that is not whole, or an accusation in a world without lies."""
    for party in world.parties.values():
        _seal(party, world.now)
        if problem := _not_whole(party):
            world.fail(f"the record of party {party.party_id}: {problem}")
    for finding in findings(world):
        if finding.accused and not world.lies:
            world.fail(f"an accusation: {finding}")


def findings(world: World) -> tuple[Finding, ...]:
    """Compare the logs of each two parties."""
    pairs = combinations(world.parties.values(), 2)
    return tuple(one for ours, theirs in pairs for one in compare(_side(ours, theirs), _side(theirs, ours)))


def outcomes(world: World) -> Counter[Outcome]:
    return Counter(one.outcome for one in findings(world))


def _side(party: SimParty, other: SimParty) -> Side:
    entries = {one.index: read_entry(one.content) for one in sealed(party, log_with(other.party_id))}
    return Side(party.party_id, entries)


def sealed(party: SimParty, log: str) -> tuple[StoredEntry, ...]:
    with party.store.reading() as tx:
        return tuple(tx.sealed_entries(log, 1, 0, _ALL))


def _seal(party: SimParty, at: int) -> None:
    done = 1
    while done:
        with party.store.transaction() as tx:
            done = seal_new(tx, at)


def _not_whole(party: SimParty) -> str:
    with party.store.reading() as tx:
        heads = tx.record_heads()
    for head in heads:
        entries = sealed(party, head.log)
        if [one.index for one in entries] != list(range(head.size)):
            return f"log {head.log} has gaps"
        if root_of(leaf_hash(one.content) for one in entries) != head.edge.root:
            return f"log {head.log} has another root"
    return ""
