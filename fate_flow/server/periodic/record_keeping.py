"""What the upkeep of a party does about its record."""

from __future__ import annotations

from fate_flow.services.context.ports import Context
from fate_flow.services.upkeep.record_keeper import RecordKeeper
from fate_flow.settings.settings import Settings
from fate_flow.store.segment_files import SegmentFiles

_DAY = 24 * 3600 * 1000


def record_keeper(settings: Settings, context: Context) -> RecordKeeper:
    days = settings.retention
    return RecordKeeper(
        context, SegmentFiles(settings.shared), int(days.record_rows_days * _DAY),
        int(days.record_texts_days * _DAY),
    )  # fmt: skip
