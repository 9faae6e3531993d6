"""The section `queues`: what the queues that jobs name stand for at this party."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.quotas.queues import QUEUE, QUEUE_IS, Placement, QueueRule, Queues
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.reading.party_ids import read_party_ids
from fate_flow.settings.reading.section import Section, collected


@collected
def read_queues(section: Section, engines: Mapping[str, EngineSettings] | None, own_id: str) -> Queues:
    """Read the queues. `engines`: None: they are wrong, which is reported."""
    found = {str(word): _queue(section, word, engines) for word in section.names()}
    taken: dict[str, str] = {}
    for word, rule in found.items():
        for party_id in sorted(rule.default_for):
            other = taken.setdefault(party_id, word)
            if other != word:
                raise BadSettings(
                    f"{section.name(word)}.default_for: party {party_id} is in {section.name(other)}.default_for, too"
                )
    limited = {name: one.parties for name, one in (engines or {}).items() if one.parties is not None}
    return Queues(own_id, found, limited)


def _queue(section: Section, word: Any, engines: Mapping[str, EngineSettings] | None) -> QueueRule:
    if not isinstance(word, str) or not QUEUE.fullmatch(word):
        raise BadSettings(f"{section.name(str(word))}: is not a queue: {QUEUE_IS}")
    one = section.section(word)
    engine, queue = one.text("engine"), one.text("queue")
    parties = None if one.get("parties") is None else read_party_ids(one, "parties")
    rule = QueueRule(Placement(engine, queue), parties, read_party_ids(one, "default_for") or frozenset())
    one.refuse_others()
    known: Collection[str] = engines or {}
    if engines is not None and engine not in known:
        problem = f"{engine!r} is no engine" if engine else "is missing"
        raise BadSettings(f"{one.name('engine')}: {problem}; known here: {', '.join(known)}")
    if engines is not None and queue and not engines[engine].has_queues:
        raise BadSettings(f"{one.name('queue')}: engine {engine} has no queues; remove it")
    return rule

