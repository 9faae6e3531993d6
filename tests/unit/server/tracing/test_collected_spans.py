"""Spans on their way to a collector, which may be down, slow, or not wanted."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.metrics.spans import NoSpans, Span, SpanId, SpanKind
from fate_flow.core.model.errors import BadSettings
from fate_flow.server.tracing.collector import authorities
from fate_flow.server.tracing.process_spans import ProcessSpans
from fate_flow.settings.settings import Settings
from fate_flow.settings.traces import TraceSettings
from tests.kit.tls import Authority
from tests.kit.traces.collector import Collector, collector
from tests.kit.waiting import SECONDS, eventually

TRACE = "4b" * 16
A_SPAN = Span(
    "send start", SpanId(TRACE, "01" * 8), 1_000_000_000, 1_500_000_000, "02" * 8, (SpanId("5c" * 16, "03" * 8),),
    SpanKind.CLIENT, {"fate_flow.job.id": "j", "fate_flow.retcode": 103},
)  # fmt: skip


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a collector that answers may take longer than the end of a process waits."""
    for name in ("_SEND_SECONDS", "_LAST_SECONDS"):
        monkeypatch.setattr(f"fate_flow.server.tracing.collector.{name}", SECONDS)


@pytest.fixture
def received() -> Iterator[Collector]:
    """A collector, which stays until nothing is sent any more: a thread that tries again logs in tests that follow."""
    with collector() as found:
        yield found
        threads_end()


def threads_end() -> None:
    eventually(lambda: not any(one.name.startswith("Otel") for one in threading.enumerate()), "the end of its thread")


def spans_to(url: str, share: float = 1.0, **more: Any) -> ProcessSpans:
    traces = TraceSettings(f"{url}/v1/traces", share=share, **more)
    return ProcessSpans(Settings("9999", Path("/nowhere"), traces=traces))


def test_a_span_arrives_as_it_was_left_and_the_end_of_a_process_does_not_lose_it(received: Collector) -> None:
    process = spans_to(received.url)
    spans = process.start("scheduler")
    spans.add(A_SPAN)
    spans.add(replace(A_SPAN, id=SpanId(TRACE, "04" * 8), parent="", links=(), kind=SpanKind.SERVER, error="timeout"))
    process.finish()

    assert received.paths == ["/v1/traces"]
    one, other = received.spans
    assert (one.name, one.id, one.parent, one.links) == (A_SPAN.name, A_SPAN.id, A_SPAN.parent, A_SPAN.links)
    assert (one.begun, one.ended, one.kind, one.failed) == (A_SPAN.begun, A_SPAN.ended, "CLIENT", False)
    assert one.attributes == A_SPAN.attributes
    assert (other.id, other.parent, other.kind, other.failed) == (SpanId(TRACE, "04" * 8), "", "SERVER", True)
    assert other.attributes["error.type"] == "timeout"
    known = {"service.name": "fate_flow", "fate_flow.own_party.id": "9999", "fate_flow.process": "scheduler"}
    assert known.items() <= one.resource.items()


def test_a_collector_that_never_answers_holds_nobody_up_and_the_end_waits_no_longer_than_it_may(
    received: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers only after that: were it waited for, nobody would let it."""
    for name, less in {"_MOST_WAITING": 32, "_MOST_IN_A_BATCH": 8, "_LAST_SECONDS": 0.01}.items():
        monkeypatch.setattr(f"fate_flow.server.tracing.collector.{name}", less)
    received.hangs = threading.Event()
    process = spans_to(received.url)
    spans = process.start("http")
    for number in range(100):          # more than wait at once
        spans.add(replace(A_SPAN, id=SpanId(TRACE, f"{number + 1:016x}")))
    eventually(lambda: received.paths, "a request")
    process.finish()
    assert received.spans == []
    received.hangs.set()
    threads_end()
    assert 0 < len(received.spans) <= 8 + 32


def test_a_span_is_left_without_any_input_or_output_while_the_collector_hangs(
    received: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what a request pays does not depend on the collector: the exporter sends outside of the lock of its queue."""
    received.hangs = threading.Event()
    process = spans_to(received.url)
    spans = process.start("http")
    sender = threading.Thread(target=spans._provider.force_flush, daemon=True)      # type: ignore[attr-defined]
    spans.add(A_SPAN)
    sender.start()
    eventually(lambda: received.paths, "a request that has no answer")
    called: set[str] = set()

    def note(_: object, event: str, what: Any) -> None:
        """Note each function in C that this thread calls: all input and output is."""
        if event == "c_call":
            called.add(f"{what.__module__ or type(what.__self__).__module__}.{what.__name__}")

    sys.setprofile(note)
    try:
        for number in range(100):
            spans.add(replace(A_SPAN, id=SpanId(TRACE, f"{number + 1:016x}")))
    finally:
        sys.setprofile(None)
    assert len(called) > 5
    outside = {one for one in called if one.startswith(("_socket.", "_ssl.", "_io.", "posix.", "select."))}
    assert outside <= {"posix.getpid"}, "which finds out after a fork that it is another process"
    assert "time.sleep" not in called
    assert received.spans == [], "the collector still hangs"
    received.hangs.set()
    process.finish()
    sender.join()


def test_that_a_collector_is_dead_is_logged_once_with_the_reason(
    received: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    process = spans_to(received.url)
    spans = process.start("http")
    received.status = 401
    for _ in range(2):
        spans.add(A_SPAN)
        spans._provider.force_flush()                                    # type: ignore[attr-defined]
    received.status = 200
    spans.add(A_SPAN)
    spans._provider.force_flush()                                        # type: ignore[attr-defined]
    process.finish()
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warned == [
        "traces.endpoint: the collector takes no spans, they are lost: "
        "Failed to export spans batch code: 401, reason: Unauthorized",
        "traces.endpoint: the collector takes spans again; 2 or more are lost",
    ]


def test_the_end_does_not_wait_for_a_collector_that_is_known_to_be_dead(received: Collector) -> None:
    """It answers only after that: were it waited for, nobody would let it."""
    received.hangs = threading.Event()
    process = spans_to(received.url)
    spans = process.start("http")
    spans._watched.fails = True                                          # type: ignore[attr-defined]
    spans.add(A_SPAN)
    process.finish()
    assert spans._watched.fails                                          # type: ignore[attr-defined]
    received.hangs.set()


def test_which_traces_are_sent_follows_from_their_ids_alone(received: Collector) -> None:
    process = spans_to(received.url, share=0.5)
    spans = process.start("http")
    traces = [f"{number:032x}" for number in (1, 2**63 + 1)]
    for trace in traces:
        spans.add(replace(A_SPAN, id=SpanId(trace, "01" * 8), links=()))
        spans.add(replace(A_SPAN, id=SpanId(trace, "02" * 8), links=(), parent=""))
    process.finish()
    assert [one.id.trace for one in received.spans] == [traces[0]] * 2


def test_a_collector_is_checked_with_the_authorities_of_the_system_unless_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_system = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(of_system.file))
    with collector(of_system.server_context()) as received:
        for ca_file in ("", str(of_system.file)):
            process = spans_to(received.url, ca_file=ca_file)
            process.start("http").add(A_SPAN)
            process.finish()
    assert len(received.spans) == 2


def test_without_a_file_of_the_system_its_folder_counts_and_without_both_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert authorities() == str(tmp_path)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    assert not Path(authorities()).exists()


def test_each_request_has_the_headers_of_the_file(received: Collector, tmp_path: Path) -> None:
    process = spans_to(received.url, headers_file=private(tmp_path, "Authorization: Bearer a b=\n\nx-scope:org-1\n"))
    process.start("http").add(A_SPAN)
    process.finish()
    assert received.headers[0].items() >= {"authorization": "Bearer a b=", "x-scope": "org-1"}.items()


@pytest.mark.parametrize(("text", "mode", "problem"), [
    ("x-good: 1\nhidden\n", 0o600, "line 2 is not a header in ASCII, such as authorization: Bearer x"),
    ("authorization: hidd\u00e9n", 0o600, "line 1 is not a header in ASCII, such as authorization: Bearer x"),
    ("\n", 0o600, "has no header, such as authorization: Bearer x"),
    ("x: hidden", 0o644, "is of mode 0644, so other users could use the secret: chmod 600"),
])  # fmt: skip
def test_wrong_headers_are_refused_at_the_start_and_not_shown(
    tmp_path: Path, text: str, mode: int, problem: str
) -> None:
    file = private(tmp_path, text, mode)
    with pytest.raises(BadSettings) as refused:
        spans_to("http://127.0.0.1:4318", headers_file=file)
    assert refused.value.message == f"traces.headers_file: {file}: {problem}"


def test_a_process_that_starts_after_the_file_has_gone_runs_and_says_so(
    received: Collector, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process = spans_to(received.url, headers_file=(file := private(tmp_path, "x: 1")))
    file.unlink()
    process.start("http").add(A_SPAN)
    process.finish()
    assert len(received.spans) == 1
    assert f"traces.headers_file: {file}: cannot be read" in caplog.text


def private(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "collector.headers"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def test_what_is_missing_is_said_at_the_start_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fate_flow.server.tracing.collector", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(BadSettings) as refused:
        spans_to("http://127.0.0.1:4318")
    assert refused.value.message == (
        "traces.endpoint: is set, but the package opentelemetry.sdk.trace is missing: install fate_flow[opentelemetry]"
    )


def test_without_an_endpoint_nothing_is_made_and_nothing_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    process = ProcessSpans(Settings("9999", Path("/nowhere")))
    assert isinstance(process.start("http"), NoSpans)
    process.finish()
