"""The history of a job: what this party has seen and, at the initiator, what the other parties report."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.explain import NOT_ASKED, recounted
from fate_flow.core.model.errors import UNREACHABLE, JobNotFound
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Seat
from fate_flow.core.text.phrases import counted, sanitized
from fate_flow.core.wire.v1.fields import moment_in
from fate_flow.core.wire.v1.paths import HISTORY
from fate_flow.core.wire.v1.queries import history_query, moves_in

ANSWERED = "answered"
_AT_ONCE = 16
_MOST_MOVES = 20_000        # limit for one other party
_LONGEST = 4_000
_ALWAYS = ("level", "new", "message")
_IF_ANY = ("role", "party_id", "component_name", "old", "reason", "caused_by", "exit_status")
_LEVELS = frozenset(level.value for level in HistoryLevel)


def federated_history(services: Services, job_id: str) -> dict[str, Any]:
    """Return every change of state of the job, each party's in its own order, and which parties were asked.

    Raise JobNotFound, Busy."""
    own = services.settings.party_id
    entries, snapshot = services.views.history(job_id), services.views.snapshot(job_id)
    if entries is None or snapshot is None:
        raise JobNotFound(f"can not found job {job_id} on party {own}")
    answers = _ask_others(services, job_id, snapshot.seats)
    seen = [[{**recounted(one), "seen_by": own} for one in entries]]
    seen.extend(_moves_in(party_id, answer) for party_id, answer in answers.items())
    return {
        "moves": list(heapq.merge(*seen, key=lambda move: move["time"])),
        "parties": [_stance(party_id, answer) for party_id, answer in answers.items()],
    }


def _ask_others(services: Services, job_id: str, seats: Sequence[Seat]) -> dict[str, Answer]:
    """Return the answers of the other parties; {} at a party that is not the initiator."""
    own = (services.settings.party_id, "0")
    others = {seat.party.party_id: seat for seat in seats if seat.party.party_id not in own}

    if not others:
        return {}
    with (
        services.use_cases.submits.waiting(), services.asking("history", job_id) as ask_party,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):  # fmt: skip

        def ask(seat: Seat) -> Answer:
            if seat.is_plain_v1:
                return Answer(UNREACHABLE, "it speaks plain v1")
            return ask_party(seat.party, HISTORY, history_query(job_id))

        return dict(zip(others, pool.map(ask, others.values()), strict=True))


def _stance(party_id: str, answer: Answer) -> dict[str, str]:
    moves = moves_in(answer)
    if moves is None:
        text = "it does not offer to be asked" if answer.is_ok else answer.retmsg
        return {"party_id": party_id, "asked": NOT_ASKED, "message": text}
    left = max(0, len(moves) - _MOST_MOVES)
    text = f"its last {counted(left, 'move is', 'moves are')} left out" if left else ""
    return {"party_id": party_id, "asked": ANSWERED, "message": text}


def _moves_in(party_id: str, answer: Answer) -> list[dict[str, Any]]:
    """Return the changes in another party's answer, with checked values of known keys only."""
    moves = (moves_in(answer) or [])[:_MOST_MOVES]
    return [_move(party_id, one) for one in moves if isinstance(one, Mapping) and one.get("level") in _LEVELS]


def _move(party_id: str, answers: Mapping[str, Any]) -> dict[str, Any]:
    texts = {key: sanitized(answers.get(key), _LONGEST) for key in (*_ALWAYS, *_IF_ANY)}
    return {
        "time": moment_in(answers, "time"),
        **{key: texts[key] for key in _ALWAYS},
        **{key: texts[key] or None for key in _IF_ANY},
        "task_version": _whole(answers.get("task_version")) if texts["component_name"] else None,
        "seen_by": party_id,
    }


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else 0
