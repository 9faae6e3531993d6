"""Entries as logs of OpenTelemetry, sent by its SDK over OTLP and HTTP.

Only this module, and `tracing/collector.py`, import the SDK (the extra `fate_flow[opentelemetry]`). Its logs still have
an underscore in the names of packages, since that part of it may change; the exporter alone is used, which says whether
the collector has taken a request.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from opentelemetry import trace as otel
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from fate_flow import __version__
from fate_flow.core.metrics.spans import FATE_FLOW, JOB_ID, PEER_ID
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.entry import Kind
from fate_flow.core.record.shown import ShownEntry
from fate_flow.server.exporting.exporter import NotTaken
from fate_flow.server.tracing.collector import authorities, session_for_collector
from fate_flow.server.tracing.headers import read_headers
from fate_flow.server.tracing.sdk_messages import messages_of_sdk
from fate_flow.settings.recording.exports import CollectorExport, headers_key

_SECONDS = 10.0              # for a page, with its retries
_WARNED_OF = (Kind.REFUSED, Kind.EPOCH)
_SCOPE = InstrumentationScope(f"{FATE_FLOW}.record", __version__)


class CollectorReceiver:
    """Sends to one collector. The headers are read for each page, so a token may change without a restart."""

    def __init__(self, export: CollectorExport, own: str) -> None:
        """`own`: the id of this party."""
        self._export = export
        self._headers: Mapping[str, str] = {}
        self._exporter: OTLPLogExporter | None = None
        self._resource = Resource.create({
            SERVICE_NAME: FATE_FLOW, SERVICE_VERSION: __version__, "fate_flow.own_party.id": own,
        })  # fmt: skip
        self._messages = messages_of_sdk()

    def send(self, entries: Sequence[ShownEntry]) -> None:
        try:
            exporter = self._with_headers(read_headers(self._export.headers_file, headers_key(self._export)))
        except BadSettings as error:
            raise NotTaken(error.message) from error
        self._messages.forget()
        now = time.time_ns()
        if exporter.export([self._log_of(one, now) for one in entries]) is not LogRecordExportResult.SUCCESS:
            raise NotTaken(self._messages.first or "the collector does not take them")

    def abort(self) -> None:
        if self._exporter is not None:
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # of the SDK

    def _with_headers(self, headers: Mapping[str, str]) -> OTLPLogExporter:
        if self._exporter is None or headers != self._headers:
            self._headers = headers
            self._exporter = OTLPLogExporter(
                self._export.url, certificate_file=self._export.ca_file or authorities(), headers=headers,
                timeout=_SECONDS, session=session_for_collector(),
            )  # fmt: skip
        return self._exporter

    def _log_of(self, one: ShownEntry, now: int) -> ReadableLogRecord:
        known = {
            "fate_flow.record.log": one.log, "fate_flow.record.epoch": one.epoch, "fate_flow.record.index": one.index,
            JOB_ID: one.said.get("job"), PEER_ID: one.other, "fate_flow.person": one.person,
            "fate_flow.record.text": one.text,
        }  # fmt: skip
        severity = SeverityNumber.WARN if one.kind in _WARNED_OF else SeverityNumber.INFO
        record = LogRecord(
            timestamp=one.at * 1_000_000, observed_timestamp=now, context=_context_of(one),
            severity_number=severity, severity_text=severity.name,
            body=one.content, event_name=f"fate_flow.record.{one.kind}",
            attributes={key: value for key, value in known.items() if value not in ("", None)},
        )  # fmt: skip
        return ReadableLogRecord(record, self._resource, _SCOPE)


def _context_of(one: ShownEntry) -> Context:
    """Return the trace of an entry, without a span, of which entries know nothing."""
    trace = str(one.said.get("trace", ""))
    try:
        number = int(trace, 16)
    except ValueError:
        return Context()
    return otel.set_span_in_context(otel.NonRecordingSpan(otel.SpanContext(number, 0, is_remote=True)), Context())
