"""Entries as logs of OpenTelemetry, made and encoded by its SDK, and posted by OTLP over HTTP.

Only this module, and `tracing/collector.py`, import the SDK (the extra `fate_flow[opentelemetry]`). Its logs still have
an underscore in the names of packages, since that part of it may change. Its exporter is not used: it takes redirects,
pages of HTML and a refusal of some of the logs for success, and its messages have the whole URL, which may be a secret.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import requests
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no types come with it
from opentelemetry import trace as otel
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from fate_flow import __version__
from fate_flow.core.metrics.spans import FATE_FLOW, JOB_ID, PEER_ID
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.shown import ShownEntry
from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import PeerHttp
from fate_flow.server.exporting.receiver import NotTaken, is_warning
from fate_flow.server.tracing.collector import authorities
from fate_flow.server.tracing.headers import read_headers
from fate_flow.settings.recording.exports import CollectorExport, headers_key

_SECONDS = 10.0              # for a page
_LONGEST_ANSWER = 100_000    # bytes
_PROTOBUF = "application/x-protobuf"
_SCOPE = InstrumentationScope(f"{FATE_FLOW}.record", __version__)


class CollectorReceiver:
    """Sends to one collector. The headers are read for each page, so a token may change without a restart."""

    def __init__(self, export: CollectorExport, own: str, seconds: float = _SECONDS) -> None:
        """`own`: the id of this party. `seconds`: the most that a page may take."""
        self._export, self._seconds = export, seconds
        self._http = PeerHttp()
        self._is_aborted = False
        self._resource = Resource.create({
            SERVICE_NAME: FATE_FLOW, SERVICE_VERSION: __version__, "fate_flow.own_party.id": own,
        })  # fmt: skip

    def send(self, entries: Sequence[ShownEntry]) -> None:
        now = time.time_ns()
        data = encode_logs([self._log_of(one, now) for one in entries]).SerializeToString()
        try:
            headers = read_headers(self._export.headers_file, headers_key(self._export))
            answer = self._http.post(
                self._export.url, data, {**headers, "Content-Type": _PROTOBUF, DEST_PARTY_ID: ""},
                seconds=self._seconds, most_bytes=_LONGEST_ANSWER, ca_file=self._export.ca_file or authorities(),
            )  # fmt: skip
        except BadSettings as error:
            raise NotTaken(error.message) from error
        except (requests.RequestException, ValueError) as error:
            raise NotTaken(describe_network_error(error)) from error
        _check(answer.status, answer.body)
        if self._is_aborted:
            raise NotTaken("this server ends")

    def abort(self) -> None:
        self._is_aborted = True

    def _log_of(self, one: ShownEntry, now: int) -> ReadableLogRecord:
        known = {
            "fate_flow.record.log": one.log, "fate_flow.record.epoch": one.epoch, "fate_flow.record.index": one.index,
            JOB_ID: one.said.get("job"), PEER_ID: one.other, "fate_flow.person": one.person,
            "fate_flow.record.text": one.text,
        }  # fmt: skip
        severity = SeverityNumber.WARN if is_warning(one) else SeverityNumber.INFO
        record = LogRecord(
            timestamp=one.at * 1_000_000, observed_timestamp=now, context=_context_of(one),
            severity_number=severity, severity_text=severity.name,
            body=one.content, event_name=f"fate_flow.record.{one.kind}",
            attributes={key: value for key, value in known.items() if value not in ("", None)},
        )  # fmt: skip
        return ReadableLogRecord(record, self._resource, _SCOPE)


def _check(status: int, body: bytes) -> None:
    """Raise NotTaken unless the collector says that it has taken all logs of a request."""
    if status != 200:
        raise NotTaken(f"the collector answers with HTTP status {status}")
    try:
        refused = ExportLogsServiceResponse.FromString(body).partial_success
    except DecodeError as error:
        raise NotTaken("what answers is no collector: its answer is none of OTLP") from error
    if refused.rejected_log_records:
        raise NotTaken(f"the collector refuses {refused.rejected_log_records} of the entries: {refused.error_message}")


def _context_of(one: ShownEntry) -> Context:
    """Return the trace of an entry, without a span, of which entries know nothing."""
    trace = str(one.said.get("trace", ""))
    try:
        number = int(trace, 16)
    except ValueError:
        return Context()
    return otel.set_span_in_context(otel.NonRecordingSpan(otel.SpanContext(number, 0, is_remote=True)), Context())
