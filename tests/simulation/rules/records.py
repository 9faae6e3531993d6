"""What has to hold for the records of all parties once everything is over: each log is whole and cosigned by the party
that it is about, and nobody is accused who has not lied, whatever was lost, repeated, late, dead or restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

from fate_flow.core.record.checkpoint import Checkpoint, read_checkpoint
from fate_flow.core.record.comparison import Finding, Outcome, Side, compare
from fate_flow.core.record.entry import Kind, log_with, read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.note import read_note
from fate_flow.core.record.tree import leaf_hash, root_of
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.sealing import seal_new
from fate_flow.services.record.verifying import Keys, State
from fate_flow.services.witnesses.cosignatures import witness_keys
from tests.kit.core.signers import has_signed
from tests.simulation.world.witnesses import has_forgotten

if TYPE_CHECKING:
    from tests.simulation.world.party import SimParty
    from tests.simulation.world.world import World

_ALL = 1 << 40
_UNDER_WAY = 5_000          # milliseconds in which a new checkpoint may not be cosigned yet


def check_records(world: World) -> None:
    """Fail the world for a log that is not whole, one that its witness does not hold, and for an accusation of a party
    that has not lied, or the missing one of a party that has."""
    for party in world.parties.values():
        _seal(party, party.clock())
        if problem := _not_whole(party):
            world.fail(f"the record of party {party.party_id}: {problem}")
    for party, witness in permutations(world.parties.values(), 2):
        if problem := _not_held(world, party, witness):
            world.fail(f"the record of party {party.party_id} with party {witness.party_id}: {problem}")
    for finding in findings(world):
        if finding.accused and not world.lies and not world.forkers.intersection(finding.accused):
            world.fail(f"an accusation: {finding}")


def findings(world: World) -> tuple[Finding, ...]:
    """Compare the logs of each two parties."""
    pairs = combinations(world.parties.values(), 2)
    return tuple(one for ours, theirs in pairs for one in compare(_side(ours, theirs), _side(theirs, ours)))


def outcomes(world: World) -> Counter[Outcome]:
    return Counter(one.outcome for one in findings(world))


def _side(party: SimParty, other: SimParty) -> Side:
    """The log of a party about another one."""
    entries = {(one.epoch, one.index): read_entry(one.content) for one in sealed(party, log_with(other.party_id))}
    return Side(party.party_id, entries)


def sealed(party: SimParty, log: str) -> tuple[StoredEntry, ...]:
    """Return the entries of all epochs."""
    with party.store.reading() as tx:
        epochs = tx.record_epochs(log)
        return tuple(one for epoch in epochs for one in tx.sealed_entries(log, epoch, 0, _ALL))


def accusers(world: World, liar: str) -> set[str]:
    """Return the parties that can show that this one has gone on in another past than it has signed."""
    return {
        witness.party_id for witness in world.parties.values()
        if witness.party_id != liar and (_evidence(witness, liar) or _other_past(world.parties[liar], witness))
    }  # fmt: skip


def _evidence(witness: SimParty, liar: str = "") -> list[str]:
    """Return the origins of logs of this party (of any if none is named) against which there is evidence."""
    with witness.store.reading() as tx:
        return [one.origin for one in tx.evidence() if liar in ("", one.party_id)]


def _held(party: SimParty, witness: SimParty) -> Mapping[int, Checkpoint]:
    """Return the newest checkpoints that the witness holds of a log, by epoch."""
    beginning = f"{party.witnessing.keys.root}/{log_with(witness.party_id)}/"
    with witness.store.reading() as tx:
        heads = [read_checkpoint(read_note(note).text) for note in tx.witnessed_below(beginning)]
    return {int(head.origin.removeprefix(beginning)): head for head in heads}


def _other_past(party: SimParty, witness: SimParty) -> bool:
    """Return whether the log, as its party shows it now, has another past than the one that the witness holds, and does
    not say that it has begun anew."""
    log = log_with(witness.party_id)
    with party.store.reading() as tx:
        newest = tx.record_head(log).epoch
        held = _held(party, witness).get(newest)
        leaves = [leaf_hash(one.content) for one in tx.sealed_entries(log, newest, 0, _ALL)]
    return held is not None and (held.size > len(leaves) or root_of(leaves[: held.size]) != held.root)


def _not_held(world: World, party: SimParty, witness: SimParty) -> str:
    if party.party_id in world.forkers:
        is_fork = (party.party_id, witness.party_id) in world.restored
        is_seen = witness.party_id in accusers(world, party.party_id)
        return "nobody notices its second past" if is_fork and not is_seen else ""
    if _other_past(party, witness) or _evidence(witness, party.party_id):
        return "it contradicts what the witness holds"
    log = log_with(witness.party_id)
    with party.store.reading() as tx:
        head = tx.record_head(log)
        signed = tx.checkpoints(log, head.epoch)
        first = tx.sealed_entries(log, head.epoch, 0, 1)
    if witness.party_id in world.strange:
        return ""
    old = [one.size for one in signed if one.at <= party.clock() - _UNDER_WAY]
    held = _held(party, witness).get(head.epoch)
    if old and (held is None or held.size < max(old)):
        return f"{max(old)} entries are signed, and the witness holds {held.size if held else 0}"
    if head.size and not signed:          # by a clock that was set back, none may be old
        return "nothing of it is signed"
    return _not_said(world, party, witness, first)


def _not_said(world: World, party: SimParty, witness: SimParty, first: tuple[StoredEntry, ...]) -> str:
    """`first`: the first entry of its newest epoch."""
    pair = (party.party_id, witness.party_id)
    restored = world.restored.get(pair) or world.forgotten.get(pair)
    if restored is None:
        return ""
    if first[0].kind != Kind.EPOCH:
        # What it had lost may have come once more before it asked.
        is_whole = pair not in world.restored and not has_forgotten(party, witness)
        return "" if is_whole else "it was restored, and does not say so"
    epoch, signed = restored
    with party.store.reading() as tx:
        newest = tx.newest_checkpoint(log_with(witness.party_id), epoch)
    return "" if (newest.size if newest else 0) == signed else "what was restored was signed further"


def _seal(party: SimParty, at: int) -> None:
    done = 1
    while done:
        with party.store.transaction() as tx:
            done = seal_new(tx, at)


def _not_whole(party: SimParty) -> str:
    """Verify all logs as `fate_flow audit verify` does."""
    keys: Any = party.witnessing.keys
    with party.store.reading() as tx:
        witnesses = [(other, key) for other, listed in witness_keys(tx).items() for key in listed]
        reports = verify_all(tx, Keys(keys.root, (keys.own.key.key,), witnesses, has_signed))
    broken = next((one for one in reports if one.state is State.BROKEN), None)
    return f"log {broken.log}, epoch {broken.epoch}, entry {broken.broken_at}: {broken.why}" if broken else ""
