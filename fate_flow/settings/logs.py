"""The keys `file_max_bytes` and `folder_max_bytes` of the section `log`."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.settings.reading.section import Section


@dataclass(frozen=True)
class LogLimits:
    """Limits in bytes: of a log file before rotation; of a folder of the server or of a job, with rotated files."""

    file_max_bytes: int = 64 << 20
    folder_max_bytes: int = 1 << 30


def read_log_limits(section: Section) -> LogLimits:
    default = LogLimits()
    return LogLimits(
        section.whole("file_max_bytes", default.file_max_bytes, 4096),
        section.whole("folder_max_bytes", default.folder_max_bytes, 4096),
    )
