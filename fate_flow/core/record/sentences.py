"""Entries of the record as sentences for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.core.record.request_counts import Direction
from fate_flow.core.record.shown import ShownEntry
from fate_flow.core.record.window_counts import MINUTE_MS
from fate_flow.core.text.phrases import counted

_WITH_TEXT = ("status", "act", "decision", "worker", "server")


def place_of(one: ShownEntry) -> str:
    """Return where the entry is: its log and index, as `with/10000 #12`."""
    epoch, of = f" epoch {one.epoch}" if one.epoch > 1 else "", f"party {one.of}: " if one.of else ""
    return f"{of}{one.log}{epoch} #{one.index}" if one.epoch else f"{one.log} (not yet sealed)"


def word_of(one: ShownEntry, own: str) -> str:
    """Return whose word it is, as far as logs were compared: that of one party, or of both sides of a message."""
    there = one.there
    if there is None:
        return f"party {one.of or own}"
    both = f"parties {own} and {there.party_id}"
    return both if there.is_agreed else f"{both}, who contradict each other"


def sentence_of(one: ShownEntry) -> str:
    """Return the entry as a sentence, with the text beside it if that is still there.

    An entry of another party may lack what its kind should have: it is shown by its kind."""
    sentence = _SENTENCES.get(one.kind)
    try:
        found = sentence(one.said, one) if sentence is not None else one.kind
    except (LookupError, TypeError, ValueError, AttributeError):
        found = f"{one.kind}, without what such an entry has"
    return f"{found}: {one.text}" if one.text and one.kind in _WITH_TEXT else found


def _status(said: Mapping[str, Any], _: ShownEntry) -> str:
    who = " ".join(str(said[key]) for key in ("level", "party", "task", "version") if key in said)
    reason = f" ({said['reason']})" if "reason" in said else ""
    return f"{who}: {said.get('old', '')} -> {said.get('new', '')}{reason}"


def _act(said: Mapping[str, Any], one: ShownEntry) -> str:
    return f"{one.person or said.get('who', '') or 'somebody'}: {said.get('what', '')}"


def _question(said: Mapping[str, Any], one: ShownEntry) -> str:
    who = one.person or said.get("who", "") or "somebody"
    return f"{who}: asked {said.get('seat')} ({said.get('what')}); answered {said.get('retcode')}"


_ASKED_FOR = {
    "history": "the history of the job", "validate": "the check of a document", "task log": "the output of a worker",
    "output table": "the output tables of a task",
}  # fmt: skip


def _replied(said: Mapping[str, Any], _: ShownEntry) -> str:
    what = _ASKED_FOR.get(str(said.get("what")), said.get("what"))
    return f"party {said.get('party')} asked for {what}; answered {said.get('retcode')}"


def _decision(said: Mapping[str, Any], _: ShownEntry) -> str:
    return f"{said.get('outcome')} {said.get('command')} of party {said.get('party')} ({said.get('about')})"


_CAUSES: Mapping[str, str] = {
    Cause.CONNECTIONS: "too many connections", Cause.HANDSHAKE: "no TLS connection", Cause.KEY: "no known key",
    Cause.REQUEST: "by the gateway",
}  # fmt: skip


def _refused(said: Mapping[str, Any], one: ShownEntry) -> str:
    whose = f"party {said['party']}" if "party" in said else f"{one.text or 'somebody'} whom no key has proved"
    route, answer = said.get("route"), said.get("retcode")
    often = f"{counted(said['count'], 'time')} within {_span(said)}"
    if "cause" not in said:
        return f"{whose}, {often}, at routes of a {route}: refused with {answer}"
    why = _CAUSES.get(str(said["cause"]), str(said["cause"]))
    what = why if answer is None else f"{why}, with {answer}"
    return f"{whose}, {often}, at a listener for a {route}: refused: {what}"


def _span(said: Mapping[str, Any]) -> str:
    """Return within what time the refusals were: a minute, unless they could not be recorded at once."""
    minutes = (said["last"] - said["first"]) // MINUTE_MS + 1
    return "a minute" if minutes == 1 else f"{minutes} minutes"


def _requests(said: Mapping[str, Any], _: ShownEntry) -> str:
    way = "to" if said.get("direction") == Direction.SENT else "from"
    unanswered = ", without an answer" if said.get("answered") is False else ""
    whom = f"party {said['party']}" if "party" in said else "somebody whom no key has proved"
    return f"{counted(said['count'], 'request')} ({said.get('what')}) {way} {whom}{unanswered}"


def _worker(said: Mapping[str, Any], _: ShownEntry) -> str:
    return f"worker {said.get('worker')} of {said.get('party')}, {said.get('task')}, {said.get('step')}"


def _exchange(said: Mapping[str, Any], _: ShownEntry) -> str:
    way = "to" if said.get("direction") == "sent" else "from"
    if "port" in said:
        carried = f"{said.get('bytes')} bytes in {counted(said['streams'], 'stream')} of port {said['port']}"
        if said.get("partial"):
            carried = f"{carried} (without digests of {said['partial']} of them)"
        return f"{said.get('party')}, {said.get('task')}: {carried} {way} {said.get('other')}"
    carried = f"{said.get('messages')} messages, {said.get('bytes')} bytes in {said.get('channels')} channels"
    if said.get("partial"):
        carried = f"{carried} (without {said['partial']} of them, which were not counted from the beginning)"
    return f"{said.get('party')}, {said.get('task')}: {carried} {way} {said.get('other')}"


def _keys(said: Mapping[str, Any], _: ShownEntry) -> str:
    return f"this party is known by its key list {said.get('number')}"


def _sent(said: Mapping[str, Any], one: ShownEntry) -> str:
    return f"to party {one.other}: {command_of(said)}"


def _answered(said: Mapping[str, Any], one: ShownEntry) -> str:
    heard = "" if said.get("acknowledged") else ", which does not say that it has recorded it"
    return f"party {one.other} has answered {said.get('retcode')}{heard}"


def _received(said: Mapping[str, Any], one: ShownEntry) -> str:
    return f"from party {one.other}: {command_of(said)}; answered {said.get('retcode')}"


def _head(_: Mapping[str, Any], one: ShownEntry) -> str:
    return f"commits to the own log in the log with party {one.other}"


def _server(said: Mapping[str, Any], _: ShownEntry) -> str:
    name = f" {said['server']}" if "server" in said else ""
    return f"server{name} of release {said.get('release')} {_STEPS.get(str(said.get('step')), said.get('step'))}"


_STEPS = {"started": "was started", "stopped": "was stopped", "off": "was started without a record (record.switch)"}


def _segment(said: Mapping[str, Any], _: ShownEntry) -> str:
    log, first, end = said.get("of"), said.get("first"), said.get("end")
    return f"the entries of log {log}, epoch {said.get('of_epoch')}, from {first} up to {end} lie in a file now"


def _epoch(said: Mapping[str, Any], one: ShownEntry) -> str:
    log = f"the log with party {one.other}" if one.other else "the own log"
    ended, lost = said.get("ended"), said.get("lost")
    if isinstance(ended, Mapping):
        log = f"{log}, of which epoch {ended.get('epoch')} has {counted(ended.get('size', 0), 'entry', 'entries')},"
    missing = f" (lost: {counted(len(lost), 'acknowledged message')})" if isinstance(lost, list) else ""
    return f"{log} begins anew: {said.get('reason')}{missing}"


def command_of(said: Mapping[str, Any]) -> str:
    return " ".join(str(said[key]) for key in ("command", "argument", "seat", "task", "version") if key in said)


_SENTENCES: Mapping[str, Callable[[Mapping[str, Any], ShownEntry], str]] = {
    "status": _status, "act": _act, "question": _question, "replied": _replied, "decision": _decision,
    "refused": _refused, "requests": _requests, "worker": _worker, "exchange": _exchange, "keys": _keys, "sent": _sent,
    "answered": _answered, "received": _received, "head": _head, "segment": _segment, "epoch": _epoch,
    "server": _server,
}  # fmt: skip
