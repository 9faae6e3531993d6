"""Spans that stay in the process."""

from __future__ import annotations

from dataclasses import dataclass, field

from fate_flow.core.metrics.spans import Span


@dataclass
class KeptSpans:
    """Where a test finds what would be sent to a collector."""

    is_on: bool = True
    found: list[Span] = field(default_factory=list)

    def add(self, span: Span) -> None:
        self.found.append(span)

    def named(self, name: str) -> Span:
        [one] = [one for one in self.found if one.name == name]
        return one
