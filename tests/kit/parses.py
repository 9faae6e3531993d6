"""Counts how often documents of jobs are parsed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from fate_flow.jobspec.fate_v1 import reader


@contextmanager
def counted_parses() -> Iterator[list[object]]:
    """The DSL of each parse while this lasts, of a document in whichever format."""
    found: list[object] = []
    keep = reader._Reading.job

    def read(reading: reader._Reading) -> Any:
        found.append(reading.dsl.value)
        return keep(reading)

    with patch.object(reader._Reading, "job", read):
        yield found
