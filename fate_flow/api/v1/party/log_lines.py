"""Lines of a log of a job, as clients of each version ask for them; IP addresses are masked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

MOST_LINES = 10_000
_MOST_LINE = 10_000             # characters
_MOST_TEXT = 4_000_000
_IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")


def log_name(level: str) -> str:
    """Return the name of the log of this level, of a party or of a component there."""
    return f"{level.upper()}.log"


SCHEDULE, SCHEDULE_ERROR = "fate_flow_schedule.log", "fate_flow_schedule_error.log"
LEVELS = ("error", "warning", "info", "debug")


def numbered(path: Path, begin: int, end: int | None) -> Iterator[dict[str, Any]]:
    """Yield the lines from `begin` to `end`, `MOST_LINES` at most, as long as the answer stays small."""
    begin = max(begin, 1)
    last = begin + MOST_LINES - 1
    count = max(min(last if end is None else end, last) - begin + 1, 0)
    left = _MOST_TEXT
    for number, line in enumerate(islice(_lines(path), begin - 1, begin - 1 + count), begin):
        content = _IPV4.sub("xxx.xxx.xxx.xxx", line.decode("utf-8", "replace").rstrip("\n")[:_MOST_LINE])
        left -= len(content)
        if left < 0:
            return
        yield {"line_num": number, "content": content}


def count_lines(path: Path) -> int:
    return sum(1 for _ in _lines(path))


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, none if it does not exist; a very long line comes in pieces."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        while line := file.readline(1024 * 1024):
            yield line
