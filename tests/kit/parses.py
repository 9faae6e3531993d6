"""Counts how often documents of jobs are parsed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from fate_flow.jobspec.fate_v1 import reader


@contextmanager
def counted_parses() -> Iterator[list[object]]:
    """The DSL of each parse while this lasts, of whichever function of the reader."""
    found: list[object] = []
    keep = reader._read_job

    def read(dsl: object, *others: Any) -> Any:
        found.append(dsl)
        return keep(dsl, *others)

    with patch.object(reader, "_read_job", read):
        yield found
