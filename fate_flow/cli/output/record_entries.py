"""Entries of the record as lines and diagrams for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fate_flow.core.record.entry import BadEntry, other_party, read_entry
from fate_flow.core.record.log import StoredEntry

NameOf = Callable[[str], str]
"""Returns the name of a person by the random id in entries; empty if it is not known here."""


_WITH_TEXT = ("status", "act", "decision", "worker")


def fields_of(one: StoredEntry) -> Mapping[str, Any]:
    """Return what the entry says; an entry that cannot be read says only that."""
    try:
        return read_entry(one.content)
    except BadEntry:
        return {"kind": "not readable", "at": one.at}


def place_of(one: StoredEntry) -> str:
    """Return where the entry is: its log and index, as `with/10000 #12`."""
    epoch = f" epoch {one.epoch}" if one.epoch > 1 else ""
    return f"{one.log}{epoch} #{one.index}" if one.is_sealed else f"{one.log} (not yet sealed)"


def text_of(one: StoredEntry, name_of: NameOf) -> str:
    """Return the entry as a sentence, with the text beside it if that is still there."""
    said = fields_of(one)
    text = _sentence(said, other_party(one.log), name_of)
    return f"{text}: {one.text}" if one.text and said["kind"] in _WITH_TEXT else text


def _sentence(said: Mapping[str, Any], other: str, name_of: NameOf) -> str:
    sentence = _SENTENCES.get(said["kind"])
    return sentence(said, other, name_of) if sentence is not None else str(said["kind"])


def _status(said: Mapping[str, Any], *_: object) -> str:
    who = " ".join(str(said[key]) for key in ("level", "party", "task", "version") if key in said)
    reason = f" ({said['reason']})" if "reason" in said else ""
    return f"{who}: {said.get('old', '')} -> {said.get('new', '')}{reason}"


def _act(said: Mapping[str, Any], _: str, name_of: NameOf) -> str:
    who = said.get("who", "")
    return f"{name_of(who) or who or 'somebody'}: {said.get('what', '')}"


def _decision(said: Mapping[str, Any], *_: object) -> str:
    return f"{said.get('outcome')} {said.get('command')} of party {said.get('party')} ({said.get('about')})"


def _refused(said: Mapping[str, Any], *_: object) -> str:
    whose = f"party {said['party']}" if "party" in said else "somebody whom no key has proved"
    count, route = said.get("count"), said.get("route")
    return f"{whose}, {count} times within a minute, at routes of a {route}: refused with {said.get('retcode')}"


def _worker(said: Mapping[str, Any], *_: object) -> str:
    return f"worker {said.get('worker')} of {said.get('party')}, {said.get('task')}, {said.get('step')}"


def _keys(said: Mapping[str, Any], *_: object) -> str:
    return f"this party is known by its key list {said.get('number')}"


def _sent(said: Mapping[str, Any], other: str, _: NameOf) -> str:
    return f"to party {other}: {_command(said)}"


def _answered(said: Mapping[str, Any], other: str, _: NameOf) -> str:
    heard = "" if said.get("acknowledged") else ", which does not say that it has recorded it"
    return f"party {other} has answered {said.get('retcode')}{heard}"


def _received(said: Mapping[str, Any], other: str, _: NameOf) -> str:
    return f"from party {other}: {_command(said)}; answered {said.get('retcode')}"


def _head(_said: Mapping[str, Any], other: str, _: NameOf) -> str:
    return f"commits to the own log in the log with party {other}"


_SENTENCES: Mapping[str, Callable[[Mapping[str, Any], str, NameOf], str]] = {
    "status": _status, "act": _act, "decision": _decision, "refused": _refused, "worker": _worker, "keys": _keys,
    "sent": _sent, "answered": _answered, "received": _received, "head": _head,
}  # fmt: skip


def _command(said: Mapping[str, Any]) -> str:
    return " ".join(str(said[key]) for key in ("command", "argument", "seat", "task", "version") if key in said)


def time_of(at: int) -> str:
    """Return the time of an entry in UTC: records of several parties are read side by side."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


def as_document(one: StoredEntry, name_of: NameOf) -> dict[str, Any]:
    """Return the entry for programs: what it says, its place, and what lies beside it."""
    said = fields_of(one)
    person = {"person": name_of(str(said["who"]))} if "who" in said else {}
    return {
        "log": one.log, "epoch": one.epoch or None, "index": one.index if one.is_sealed else None,
        "entry": one.content.decode("utf-8", "replace"), **person, **({"text": one.text} if one.text else {}),
    }  # fmt: skip


def as_mermaid(entries: Iterable[StoredEntry], own: str, name_of: NameOf) -> Iterator[str]:
    """Yield the lines of a sequence diagram: messages as arrows, all else as notes at this party."""
    yield "sequenceDiagram"
    yield f"    participant P{own} as party {own}"
    for one in entries:
        said, other = fields_of(one), other_party(one.log)
        label = _plain(f"{time_of(one.at)[11:]} ")
        match said["kind"]:
            case "sent":
                yield f"    P{own}->>P{other}: {label}{_plain(_command(said))}"
            case "answered":
                yield f"    P{other}-->>P{own}: {label}{said.get('retcode')}"
            case "received":
                yield f"    P{other}->>P{own}: {label}{_plain(_command(said))} ({said.get('retcode')})"
            case _:
                yield f"    Note over P{own}: {label}{_plain(text_of(one, name_of))}"


def _plain(text: str) -> str:
    """Without what Mermaid reads as syntax."""
    return "".join(" " if letter in ";#\n" or not letter.isprintable() else letter for letter in text)
