"""Queries about what is signed: checkpoints of this party's logs, and of those of other parties, what was cosigned here
and evidence against them."""

from __future__ import annotations

from typing import Any

from peewee import Value

from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.record_rows import EvidenceRow, QuestionRow, RecordCheckpointRow, WitnessedRow


def _checkpoints_of(log: str, epoch: int) -> Any:
    row = RecordCheckpointRow
    columns = (row.f_epoch, row.f_size, row.f_note, row.f_time, row.f_edge)
    return row.select(*columns).where((row.f_log == log) & (row.f_epoch == Value(epoch, converter=False)))


CHECKPOINTS = Prepared(lambda log, epoch: _checkpoints_of(log, epoch).order_by(RecordCheckpointRow.f_size), 2)
NEWEST_CHECKPOINT = Prepared(
    lambda log, epoch, below: _checkpoints_of(log, epoch).where(
        RecordCheckpointRow.f_size < Value(below, converter=False)
    ).order_by(RecordCheckpointRow.f_size.desc()).limit(1),
    3,
)  # fmt: skip
CHECKPOINT = Prepared(
    lambda log, epoch, size: _checkpoints_of(log, epoch).where(
        RecordCheckpointRow.f_size == Value(size, converter=False)
    ),
    3,
)  # fmt: skip
ADD_WITNESSED = Prepared(
    lambda origin: WitnessedRow.insert(f_origin=origin, f_size=0, f_note="", f_time=0).on_conflict_ignore(), 1
)
WITNESSED = Prepared(
    lambda origin: WitnessedRow.select(WitnessedRow.f_size, WitnessedRow.f_note, WitnessedRow.f_time).where(
        (WitnessedRow.f_origin == origin) & (WitnessedRow.f_note != "")
    ),
    1,
)
LAST_CHARACTER = "\x7f"               # after all characters of an origin
WITNESSED_BELOW = Prepared(
    lambda first, last: (
        WitnessedRow.select(WitnessedRow.f_note)
        .where((WitnessedRow.f_origin >= first) & (WitnessedRow.f_origin < last) & (WitnessedRow.f_note != ""))
        .order_by(WitnessedRow.f_origin)
    ),
    2,
)  # fmt: skip
QUESTIONS = Prepared(
    lambda party_id: QuestionRow.select(QuestionRow.f_questions).where(QuestionRow.f_party_id == party_id), 1
)
ADD_QUESTIONS = Prepared(
    lambda party_id, questions: (
        QuestionRow.insert(f_party_id=party_id, f_questions=questions).on_conflict_ignore()
    ),
    2,
)  # fmt: skip
EVIDENCE = Prepared(
    lambda: EvidenceRow.select(
        EvidenceRow.f_party_id, EvidenceRow.f_is_proof, EvidenceRow.f_origin, EvidenceRow.f_size, EvidenceRow.f_first,
        EvidenceRow.f_second, EvidenceRow.f_time, EvidenceRow.f_shown,
    ).order_by(EvidenceRow.f_time, EvidenceRow.f_origin, EvidenceRow.f_size),
    0,
)  # fmt: skip
