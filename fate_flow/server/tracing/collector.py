"""Spans as OpenTelemetry's SDK sends them: in batches, by a thread, over OTLP and HTTP.

Only this module, and `exporting/collector_logs.py`, import the SDK (the extra `fate_flow[opentelemetry]`). Its threads
do not survive a fork.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Sequence

import requests
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from fate_flow import __version__
from fate_flow.core.metrics.spans import ERROR, FATE_FLOW, Span, SpanId, SpanKind
from fate_flow.core.model.errors import BadSettings
from fate_flow.server.tracing.headers import read_headers
from fate_flow.settings.settings import Settings
from fate_flow.settings.traces import HEADERS_KEY, TraceSettings

log = logging.getLogger(__name__)

_SEND_SECONDS = 5.0              # of one batch, with its retries
_LAST_SECONDS = 2.0              # the longest time that the end of a process waits for its last spans
_MOST_WAITING, _MOST_IN_A_BATCH, _PAUSE_MS = 4096, 512, 2000
_KINDS = {
    SpanKind.INTERNAL: otel.SpanKind.INTERNAL,
    SpanKind.SERVER: otel.SpanKind.SERVER,
    SpanKind.CLIENT: otel.SpanKind.CLIENT,
}
_SAMPLED = otel.TraceFlags(otel.TraceFlags.SAMPLED)


class CollectedSpans:
    """Where a process leaves its spans for a collector."""

    is_on = True

    def __init__(self, settings: Settings, process: str) -> None:
        given = settings.traces
        session = requests.Session()
        session.trust_env = False        # the address of the collector is that of the configuration, without proxies
        exporter = OTLPSpanExporter(
            given.endpoint, certificate_file=given.ca_file or authorities(), headers=_headers(given),
            timeout=_SEND_SECONDS, session=session,
        )  # fmt: skip
        self._watched = _Watched(exporter)
        self._ids = _GivenIds()
        self._provider = TracerProvider(
            sampler=TraceIdRatioBased(given.share), shutdown_on_exit=False, id_generator=self._ids,
            resource=Resource.create({
                SERVICE_NAME: FATE_FLOW, SERVICE_VERSION: __version__,
                SERVICE_INSTANCE_ID: f"{settings.party_id}-{process}-{os.getpid()}",
                "fate_flow.own_party.id": settings.party_id, "fate_flow.process": process,
            }),
        )  # fmt: skip
        self._provider.add_span_processor(
            BatchSpanProcessor(self._watched, _MOST_WAITING, _PAUSE_MS, _MOST_IN_A_BATCH)
        )
        self._tracer = self._provider.get_tracer(FATE_FLOW, __version__)

    def add(self, span: Span) -> None:
        """Take a span; one that nobody can send any more is lost."""
        self._ids.next = span.id
        made = self._tracer.start_span(
            span.name, _parent_of(span), _KINDS[span.kind], span.attributes,
            [otel.Link(_context_of(one)) for one in span.links], span.begun,
        )  # fmt: skip
        if span.error:
            made.set_attribute(ERROR, span.error)
            made.set_status(otel.StatusCode.ERROR)
        made.end(span.ended)

    def finish(self) -> None:
        """Send what is left; wait for two seconds at most, and not at all for a collector that did not answer last."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        if not self._watched.fails:
            ending.join(_LAST_SECONDS)


class _GivenIds(RandomIdGenerator, threading.local):
    """The ids of the span that this thread makes next, which others may know already."""

    next = SpanId("0" * 32, "0" * 16)

    def generate_trace_id(self) -> int:
        return int(self.next.trace, 16)

    def generate_span_id(self) -> int:
        return int(self.next.span, 16)


class _Watched(SpanExporter):
    """Says once that the collector does not take spans, and once that it takes them again; the SDK says it all the
    time."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.fails = False
        self._lost = 0
        self._first = _FirstText()
        of_sdk = logging.getLogger("opentelemetry")
        of_sdk.handlers[:], of_sdk.propagate = [self._first], False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._first.text = ""
        result = self._exporter.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails:
            self._lost += len(spans)
        if fails and not self.fails:
            log.warning("traces.endpoint: the collector takes no spans, they are lost: %s", self._first.text)
        if self.fails and not fails:
            log.warning("traces.endpoint: the collector takes spans again; %d or more are lost", self._lost)
            self._lost = 0
        self.fails = fails
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class _FirstText(logging.Handler):
    """Keeps the first thing that the SDK says about a batch, which is the reason of a failure."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = self.text or record.getMessage()


def authorities() -> str:
    """Return the file or the folder with the authorities of the system, as `ssl.create_default_context` finds them;
    requests would take those of the package certifi. If there are none, a path that does not exist: none is trusted."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath or os.environ.get(paths.openssl_cafile_env, paths.openssl_cafile)


def _headers(traces: TraceSettings) -> dict[str, str]:
    """Return the headers of the file. A process that starts later does not fail because the file has gone since."""
    try:
        return read_headers(traces.headers_file, HEADERS_KEY)
    except BadSettings as error:
        log.warning("%s; spans are sent without headers", error.message)
        return {}


def _parent_of(span: Span) -> Context:
    if not span.parent:
        return otel.set_span_in_context(otel.INVALID_SPAN)
    return otel.set_span_in_context(otel.NonRecordingSpan(_context_of(SpanId(span.id.trace, span.parent))))


def _context_of(one: SpanId) -> otel.SpanContext:
    return otel.SpanContext(int(one.trace, 16), int(one.span, 16), is_remote=True, trace_flags=_SAMPLED)
