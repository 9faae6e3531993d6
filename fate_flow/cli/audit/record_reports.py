"""What verifying a record and comparing two of them has found, for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from fate_flow.cli.audit.record_times import time_of
from fate_flow.cli.console.display import one_line, print_json, tell
from fate_flow.core.record.comparison import Finding, Outcome, Place
from fate_flow.core.text.phrases import counted
from fate_flow.services.record.verifying import LogReport, State

TROUBLE, NOT_ANCHORED, BROKEN, ACCUSED = 2, 3, 4, 5
"""Exit codes; 0: each log is anchored, or nobody is accused. NOT_ANCHORED is also that of a comparison which could not
be made with each party."""


def print_reports(
    found: Sequence[LogReport], is_json: bool, *, has_keys: bool, has_evidence: bool, unheard: Mapping[str, str]
) -> int:  # fmt: skip
    """Print what was found of each log, and return the exit code. `unheard`: why parties that were asked have not said
    what they hold."""
    if not has_keys:
        tell("this party has no record key: no signature is checked (fate_flow key make)")
    if is_json:
        print_json({"logs": [one.as_document() for one in found]})
    for one in () if is_json else found:
        click.echo(one_line(_sentence_of(one)))
    if not found:
        tell("nothing is recorded here (record.switch)")
    for one in found:
        if one.warning:
            tell(one_line(f"warning: {one.warning}; nothing proves that"))
    for party_id, why in unheard.items():
        tell(one_line(f"party {party_id} has not said what it holds: {why}"))
    if has_evidence:
        tell("logs of other parties do not fit together: fate_flow audit evidence")
    if any(one.state is State.BROKEN for one in found):
        return BROKEN
    return 0 if found and all(one.state is State.ANCHORED for one in found) else NOT_ANCHORED


def read_report(document: Mapping[str, Any]) -> LogReport:
    """Return the report in an answer of a server. Raises KeyError, ValueError or TypeError for another document."""
    given = {**document, "state": State(document["state"])}
    broken_at = -1 if given["broken_at"] is None else given["broken_at"]
    return LogReport(**{**given, "broken_at": broken_at, "anchored_at": given["anchored_at"] or 0})


def print_findings(found: Sequence[Finding], is_json: bool, unheard: Mapping[str, str]) -> int:
    """Print what both logs say about each message, and return the exit code. `unheard`: why the log of a party could
    not be compared, by party id."""
    counts = Counter(one.outcome for one in found)
    if is_json:
        listed = [one.as_document() for one in found]
        document = {"counts": {one.value: counts[one] for one in Outcome}, "messages": listed}
        print_json({**document, "unheard": dict(unheard)} if unheard else document)
    else:
        _print_findings(found, counts)
    for party_id, why in unheard.items():
        tell(one_line(f"the log of party {party_id} was not compared: {why}"))
    if any(one.accused for one in found):
        return ACCUSED
    return NOT_ANCHORED if unheard else 0


def read_finding(document: Mapping[str, Any]) -> Finding:
    """Return the finding in an answer of a server. Raises KeyError, ValueError or TypeError for another document."""
    places = {key: tuple((epoch, index) for epoch, index in document[key]) for key in ("ours", "theirs")}
    accused, outcome = tuple(document["accused"]), Outcome(document["outcome"])
    return Finding(**{**document, **places, "accused": accused, "outcome": outcome})


def _print_findings(found: Sequence[Finding], counts: Mapping[Outcome, int]) -> None:
    for one in found:
        if one.outcome is not Outcome.AGREED:
            accused = f"; accused: {', '.join(one.accused)}" if one.accused else ""
            there = f"at party {one.other}" if one.other else "there"
            places = f"here {_places(one.ours)}, {there} {_places(one.theirs)}"
            click.echo(one_line(f"{one.outcome.value}: message {one.number or '-'} ({places}): {one.why}{accused}"))
    tell(", ".join(f"{one.value}: {counts[one]}" for one in Outcome if counts[one]) or "no messages were recorded")
    if any(one.accused for one in found):
        accusations = counted(sum(bool(one.accused) for one in found), "accusation")
        tell(f"{accusations}: let the accused party answer with its log")


def _places(found: tuple[Place, ...]) -> str:
    return ", ".join(f"epoch {epoch} #{index}" if epoch > 1 else f"#{index}" for epoch, index in found) or "nothing"


def _sentence_of(one: LogReport) -> str:
    name = f"{one.log} (epoch {one.epoch}), {counted(one.size, 'entry', 'entries')}"
    signed = f"signed by this party up to {one.signed_to}"
    if one.state is State.BROKEN:
        return f"{name}: BROKEN at entry {one.broken_at}: {one.why}; {signed}"
    if one.state is State.ANCHORED:
        when = f"{time_of(one.anchored_at * 1000, 'seconds')}+00:00"
        return f"{name}: anchored up to {one.anchored_to} by {one.who_anchors} at {when}; {signed}"
    return f"{name}: consistent in itself; {signed}, by no other party"
