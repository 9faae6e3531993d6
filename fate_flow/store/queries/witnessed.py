"""Queries about the logs of other parties: what was cosigned of them here, and evidence against them."""

from __future__ import annotations

from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.record_rows import EvidenceRow, WitnessedRow

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
EVIDENCE = Prepared(
    lambda: EvidenceRow.select(
        EvidenceRow.f_party_id, EvidenceRow.f_is_proof, EvidenceRow.f_origin, EvidenceRow.f_size, EvidenceRow.f_first,
        EvidenceRow.f_second, EvidenceRow.f_time, EvidenceRow.f_shown,
    ).order_by(EvidenceRow.f_time, EvidenceRow.f_origin, EvidenceRow.f_size),
    0,
)  # fmt: skip
