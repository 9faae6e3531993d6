"""A collector on loopback: it decodes OTLP over HTTP, and does with it what a test says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from fate_flow.core.metrics.spans import SpanId


@dataclass(frozen=True)
class Received:
    """A span as a collector sees it, with the resource that has sent it."""

    name: str
    id: SpanId
    parent: str                    # empty: it has none
    links: tuple[SpanId, ...]
    kind: str                      # INTERNAL, SERVER, CLIENT
    begun: int
    ended: int
    attributes: Mapping[str, Any]
    failed: bool
    resource: Mapping[str, Any]

    @property
    def party_id(self) -> str:
        return str(self.resource["fate_flow.own_party.id"])


@dataclass(frozen=True)
class ReceivedLog:
    """A log as a collector sees it. `at`: milliseconds; `trace`: empty if it has none."""

    name: str
    severity: str                  # INFO, WARN
    at: int
    body: str
    trace: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]


@dataclass
class Collector:
    """Answers with `status` and `body`, or not before `hangs` is set."""

    url: str = ""
    status: int = 200
    body: bytes = b""
    hangs: threading.Event | None = None
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)       # of each request, with names in lower case
    spans: list[Received] = field(default_factory=list)
    logs: list[ReceivedLog] = field(default_factory=list)

    def of_trace(self, trace: str) -> list[Received]:
        return [one for one in self.spans if one.id.trace == trace]

    def one(self, trace: str, name: str, party_id: str, **attributes: object) -> Received | None:
        """The first span of this name from a party; None if it has not come yet."""
        wanted = {f"fate_flow.{key.replace('_', '.', 1)}": value for key, value in attributes.items()}.items()
        found = (one for one in self.of_trace(trace) if (one.name, one.party_id) == (name, party_id))
        return next((one for one in found if wanted <= one.attributes.items()), None)

    def names(self, trace: str, party_id: str) -> set[str]:
        return {one.name for one in self.of_trace(trace) if one.party_id == party_id}


@contextmanager
def collector(context: ssl.SSLContext | None = None) -> Iterator[Collector]:
    """A collector on loopback; `context`: what it shows to those who connect over TLS."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.paths.append(self.path)
            found.headers.append({name.lower(): value for name, value in self.headers.items()})
            if found.hangs is not None:
                found.hangs.wait(60)
            if found.status == 200 and self.path == "/v1/logs":
                found.logs += decoded_logs(body)
            elif found.status == 200:
                found.spans += decoded(body)
            with suppress(OSError):
                self.send_response(found.status)
                self.send_header("content-length", str(len(found.body)))
                self.end_headers()
                self.wfile.write(found.body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    found.url = f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield found
    finally:
        if found.hangs is not None:
            found.hangs.set()
        server.shutdown()
        thread.join()
        server.server_close()


def decoded(body: bytes) -> list[Received]:
    """The spans of one request."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        _received(span, _values(resource.resource.attributes))
        for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans
    ]  # fmt: skip


def decoded_logs(body: bytes) -> list[ReceivedLog]:
    """The logs of one request."""
    request = ExportLogsServiceRequest.FromString(body)
    return [
        _received_log(one, _values(resource.resource.attributes))
        for resource in request.resource_logs for scope in resource.scope_logs for one in scope.log_records
    ]  # fmt: skip


def _received_log(one: LogRecord, resource: Mapping[str, Any]) -> ReceivedLog:
    return ReceivedLog(
        one.event_name, one.severity_text, one.time_unix_nano // 1_000_000, one.body.string_value, one.trace_id.hex(),
        _values(one.attributes), resource,
    )  # fmt: skip


def _received(span: Span, resource: Mapping[str, Any]) -> Received:
    return Received(
        span.name, SpanId(span.trace_id.hex(), span.span_id.hex()), span.parent_span_id.hex(),
        tuple(SpanId(one.trace_id.hex(), one.span_id.hex()) for one in span.links),
        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"), span.start_time_unix_nano, span.end_time_unix_nano,
        _values(span.attributes), span.status.code == 2, resource,
    )  # fmt: skip


def _values(attributes: Collection[Any]) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
