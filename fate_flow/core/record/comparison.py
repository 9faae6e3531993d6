"""What two parties' logs about each other say together: one of five outcomes for each message.

Messages get lost, and servers die between a transaction and an answer. So a message that only one side knows says
nothing by itself. Somebody is accused only where its own signature contradicts it: it has acknowledged a message that
its log does not have, has signed another content for one number, or has signed two roots for one size.

No clock accuses. Who acknowledges a message has recorded it before, and before all that is sent to it afterwards. So a
log that has a later message, and not the acknowledged one, is not just an older state of the log.

A log that has begun anew may have lost what was sent before, and what its first entry names as lost. What was sent
after an answer of the new epoch is in it. An answer counts as one of the new epoch if that epoch alone has its message,
with a time after its beginning: what was recorded before, and had no place in the log yet, gets one in the new epoch.
Here a clock is asked, the one of who may be accused, and only to excuse it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.entry import Kind

Place = tuple[int, int]
"""Where an entry is in the log of a party about the other one: its epoch, and its index there."""


_NOWHERE, _FOR_EVER = (0, -1), (1 << 62, 0)


class Outcome(StrEnum):
    """What both logs say about a message, or about a log."""

    AGREED = "agreed"
    IN_DOUBT = "in doubt"            # nobody is accused: it was lost, is on its way, or only one side speaks of it
    MISSING = "missing"              # acknowledged, and not in the log of who acknowledged it
    ALTERED = "altered"              # one number with two contents, each under a signed checkpoint
    EQUIVOCATION = "equivocation"    # two roots for one size, both signed


@dataclass(frozen=True)
class Finding:
    """The outcome for one message, or for one log."""

    outcome: Outcome
    number: str = ""                 # of the message
    accused: tuple[str, ...] = ()    # party ids
    why: str = ""
    ours: tuple[Place, ...] = ()     # of the entries that show it, in our log and in theirs
    theirs: tuple[Place, ...] = ()
    other: str = ""                  # the party whose log was compared with ours

    def as_document(self) -> dict[str, Any]:
        """Return its form in JSON."""
        return {
            "outcome": self.outcome.value, "number": self.number, "accused": list(self.accused), "why": self.why,
            "ours": [list(one) for one in self.ours], "theirs": [list(one) for one in self.theirs],
            "other": self.other,
        }  # fmt: skip


@dataclass(frozen=True)
class About:
    """Which messages somebody wants to know of: those of a job, and those of which one side speaks at this time or
    later (milliseconds since 1970). Empty: all of them."""

    job_id: str = ""
    since: int = 0

    def has(self, entry: Mapping[str, Any]) -> bool:
        return (not self.job_id or entry.get("job") == self.job_id) and entry["at"] >= self.since


ALL = About()


@dataclass(frozen=True)
class Side:
    """The log of one party about the other one: all its entries by place, up to a checkpoint of each epoch."""

    party_id: str
    entries: Mapping[Place, Mapping[str, Any]]


@dataclass
class _Message:
    """What both sides say about one message."""

    sender: str
    sent: dict[Place, str] = field(default_factory=dict)                    # place: the request's commitment
    answered: dict[Place, tuple[str, bool]] = field(default_factory=dict)   # place: answer, is it acknowledged
    received: dict[Place, tuple[str, str]] = field(default_factory=dict)    # place: request, answer

    @property
    def acknowledged(self) -> list[Place]:
        """Return where the sender's log says that the receiver has recorded it."""
        return [place for place, (_, is_acknowledged) in self.answered.items() if is_acknowledged]


def compare(ours: Side, theirs: Side, about: About = ALL) -> tuple[Finding, ...]:
    """Join both logs by the numbers of messages, and return one finding for each that it is about, in the order of our
    log.

    A message that has been repeated is one message: it counts as agreed if all its contents are the same."""
    found: dict[str, _Message] = {}
    for side, other in ((ours, theirs), (theirs, ours)):
        for place in sorted(side.entries):
            _take(found, side.party_id, other.party_id, place, side.entries[place])
    newest = {
        party_id: max((min(one.sent) for one in found.values() if one.sender == party_id and one.sent and one.received),
                      default=_NOWHERE)
        for party_id in (ours.party_id, theirs.party_id)
    }  # fmt: skip
    lost = {sender.party_id: _lost_until(receiver, [(number, one) for number, one in found.items()
                                                    if one.sender == sender.party_id])
            for sender, receiver in ((ours, theirs), (theirs, ours))}  # fmt: skip
    findings = (
        _finding(number, one, ours, theirs, newest[one.sender], lost[one.sender]) for number, one in found.items()
    )
    return tuple(
        one for one in findings
        if any(about.has(ours.entries[place]) for place in one.ours)
        or any(about.has(theirs.entries[place]) for place in one.theirs)
    )  # fmt: skip


def _lost_until(receiver: Side, messages: Iterable[tuple[str, _Message]]) -> Place:
    """Return up to which place of the sender's log the receiver may have lost what it was sent, as its newest epoch
    says; `_NOWHERE`: it has not begun anew."""
    epoch = max((one for one, _ in receiver.entries), default=0)
    first = receiver.entries.get((epoch, 0), {})
    if first.get("kind") != Kind.EPOCH:
        has_begun_anew = any(one.get("kind") == Kind.EPOCH for one in receiver.entries.values())
        return _FOR_EVER if has_begun_anew else _NOWHERE
    named, until = first.get("lost"), [_FOR_EVER]
    is_lost = {one for one in named if isinstance(one, str)} if isinstance(named, list) else set()
    lost = [_NOWHERE]
    for number, one in messages:
        acknowledged = one.acknowledged
        if number in is_lost:
            lost += [*one.sent, *acknowledged]
        elif acknowledged and one.received and all(
            place[0] == epoch and receiver.entries[place]["at"] > first["at"] for place in one.received
        ):
            until.append(min(acknowledged))
    return max(min(until), *lost)


def _take(found: dict[str, _Message], own: str, other: str, place: Place, entry: Mapping[str, Any]) -> None:
    number, kind = entry.get("number"), entry.get("kind")
    if not isinstance(number, str) or kind not in (Kind.SENT, Kind.ANSWERED, Kind.RECEIVED):
        return
    sender = other if kind == Kind.RECEIVED else own
    one = found.setdefault(number, _Message(sender))
    if one.sender != sender:
        return                       # nobody can number a message of another party: the entry is about none
    if kind == Kind.SENT:
        one.sent[place] = str(entry.get("request"))
    elif kind == Kind.ANSWERED:
        one.answered[place] = (str(entry.get("answer")), entry.get("acknowledged") is True)
    else:
        one.received[place] = (str(entry.get("request")), str(entry.get("answer")))


def _finding(number: str, one: _Message, ours: Side, theirs: Side, newest: Place, lost: Place) -> Finding:
    """`newest`: the place at which its sender has the newest of its messages that the other side has, too; `lost`: up
    to which the other side may have lost them."""
    is_ours = one.sender == ours.party_id
    sender, receiver = (ours, theirs) if is_ours else (theirs, ours)
    at_sender, at_receiver = (*one.sent, *one.answered), tuple(one.received)
    places = (at_sender, at_receiver) if is_ours else (at_receiver, at_sender)
    outcome, accused, why = _outcome(one, sender, receiver, newest, lost)
    return Finding(outcome, number, accused, why, *places, theirs.party_id)


def _outcome(
    one: _Message, sender: Side, receiver: Side, newest: Place, lost: Place
) -> tuple[Outcome, tuple[str, ...], str]:  # fmt: skip
    both = (sender.party_id, receiver.party_id)
    requests = {*one.sent.values(), *(request for request, _ in one.received.values())}
    if len(requests) > 1:
        return Outcome.ALTERED, both, "the request has two contents"
    if one.sent and one.received:
        given = {answer for _, answer in one.received.values()}
        if any(acknowledged and answer not in given for answer, acknowledged in one.answered.values()):
            if min(one.sent) <= lost:
                return Outcome.IN_DOUBT, (), f"party {receiver.party_id} may have lost the entry with the other answer"
            return Outcome.ALTERED, both, "the answer has two contents"
        return Outcome.AGREED, (), ""
    if not one.sent:
        return Outcome.IN_DOUBT, (), f"only party {receiver.party_id} says that it was sent"
    if not one.acknowledged:
        return Outcome.IN_DOUBT, (), f"party {receiver.party_id} has not acknowledged it"
    if min(one.sent) <= lost:
        return Outcome.IN_DOUBT, (), f"party {receiver.party_id} has said that it has lost a part of its log"
    if min(one.acknowledged) >= newest:
        return Outcome.IN_DOUBT, (), f"the log of party {receiver.party_id} may be from before"
    why = f"party {receiver.party_id} has acknowledged it, and has what was sent to it afterwards"
    return Outcome.MISSING, (receiver.party_id,), why


def equivocations(checkpoints: Iterable[Checkpoint], party_id: str) -> tuple[Finding, ...]:
    """Return a finding for each size for which this party has signed two roots of one log."""
    roots: dict[tuple[str, int], set[bytes]] = {}
    for one in checkpoints:
        roots.setdefault((one.origin, one.size), set()).add(one.root)
    return tuple(
        Finding(
            Outcome.EQUIVOCATION, accused=(party_id,), other=party_id,
            why=f"party {party_id} has signed {len(found)} roots of {origin} at {size} entries",
        )
        for (origin, size), found in sorted(roots.items()) if len(found) > 1
    )  # fmt: skip
