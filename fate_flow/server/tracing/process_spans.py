"""The spans of one process of a server: made after its fork, and sent before it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fate_flow.core.metrics.spans import NoSpans, Spans
from fate_flow.core.model.errors import BadSettings
from fate_flow.server.tracing.headers import read_headers
from fate_flow.settings.settings import Settings
from fate_flow.settings.traces import HEADERS_KEY


class SentSpans(Spans, Protocol):
    """Spans that are on their way to a collector."""

    def finish(self) -> None:
        """Send what is left; wait for two seconds at most."""


class ProcessSpans:
    """The supervisor makes it, and each process its spans, since a thread that sends them does not survive a fork."""

    def __init__(self, settings: Settings) -> None:
        """Raise BadSettings if traces are wanted, and what they need is not installed, or their headers are wrong."""
        self._settings = settings
        # Each process reads them itself: workers must not inherit them in memory.
        read_headers(settings.traces.headers_file, HEADERS_KEY)
        self._make = _maker() if settings.traces.is_on else None
        self._made: SentSpans | None = None

    def start(self, process: str) -> Spans:
        """Return where this process leaves its spans. `process`: its name, for the collector."""
        if self._make is None:
            return NoSpans()
        self._made = self._make(self._settings, process)
        return self._made

    def finish(self) -> None:
        """Send what is left. In a process that has not started any, do nothing."""
        if self._made is not None:
            self._made.finish()


def _maker() -> Callable[[Settings, str], SentSpans]:
    try:
        from fate_flow.server.tracing.collector import CollectedSpans
    except ModuleNotFoundError as error:
        raise BadSettings(
            f"traces.endpoint: is set, but the package {error.name} is missing: install fate_flow[opentelemetry]"
        ) from error
    return CollectedSpans
