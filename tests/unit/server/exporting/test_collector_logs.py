"""Entries as logs of OpenTelemetry, at a collector that decodes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from fate_flow.core.record.entry import Kind, log_with, new_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.shown import ShownEntry, shown_entry
from fate_flow.server.exporting.collector_logs import CollectorReceiver
from fate_flow.server.exporting.receiver import NotTaken
from fate_flow.settings.recording.exports import CollectorExport
from tests.kit.notifications.receivers import nobody_listens
from tests.kit.traces.collector import Collector, collector

TRACE = "4b" * 16


@pytest.fixture
def received() -> Iterator[Collector]:
    with collector() as found:
        yield found


def an_entry(kind: Kind = Kind.ACT, trace: str = TRACE) -> ShownEntry:
    log = log_with("10000")
    one = new_entry(log, kind, 1_700_000_000_123, {"what": "stop", "who": "5a"}, job_id="j1", trace=trace)
    return shown_entry(StoredEntry(9, log, one.content, str(kind), one.at, "j1", "", "why", 2, 7), "ann")


def to(url: str, headers: Path | None = None) -> CollectorReceiver:
    return CollectorReceiver(CollectorExport("collector", f"{url}/v1/logs", headers_file=headers), "9999")


def test_a_collector_gets_the_entry_its_place_and_its_trace(received: Collector) -> None:
    to(received.url).send([an_entry(), an_entry(Kind.REFUSED, "")])
    assert received.paths == ["/v1/logs"]
    one, other = received.logs
    assert (one.name, one.severity, one.at, one.trace) == ("fate_flow.record.act", "INFO", 1_700_000_000_123, TRACE)
    assert one.body == an_entry().content
    assert one.attributes == {
        "fate_flow.record.log": "with/10000", "fate_flow.record.epoch": 2, "fate_flow.record.index": 7,
        "fate_flow.job.id": "j1", "fate_flow.peer.id": "10000", "fate_flow.person": "ann",
        "fate_flow.record.text": "why",
    }  # fmt: skip
    assert one.resource["fate_flow.own_party.id"] == "9999"
    assert (other.severity, other.trace) == ("WARN", "")


@pytest.mark.parametrize("status", [201, 302, 400, 413, 503])
def test_a_collector_that_answers_anything_but_yes_has_not_taken_them(received: Collector, status: int) -> None:
    received.status = status
    with pytest.raises(NotTaken, match=f"the collector answers with HTTP status {status}"):
        to(received.url).send([an_entry()])


def test_what_is_refused_of_a_request_is_not_taken(received: Collector) -> None:
    refused = ExportLogsServiceResponse()
    refused.partial_success.rejected_log_records = 5
    refused.partial_success.error_message = "too old"
    received.body = refused.SerializeToString()
    with pytest.raises(NotTaken, match="the collector refuses 5 of the entries: too old"):
        to(received.url).send([an_entry()])


def test_a_page_of_another_server_is_no_answer_of_a_collector(received: Collector) -> None:
    received.body = b"<html>welcome</html>"
    with pytest.raises(NotTaken, match="what answers is no collector"):
        to(received.url).send([an_entry()])


def test_one_that_is_down_is_described_without_its_url() -> None:
    receiver = to(f"http://127.0.0.1:{nobody_listens()}/secret")
    with pytest.raises(NotTaken, match="connection refused") as failed:
        receiver.send([an_entry()])
    assert "secret" not in str(failed.value)


def test_one_that_hangs_is_waited_for_so_long(received: Collector) -> None:
    received.hangs = threading.Event()
    receiver = CollectorReceiver(CollectorExport("collector", f"{received.url}/v1/logs"), "9999", 0.2)
    with pytest.raises(NotTaken, match="no answer in time"):
        receiver.send([an_entry()])


def test_the_end_of_a_server_is_no_success(received: Collector) -> None:
    receiver = to(received.url)
    receiver.abort()
    with pytest.raises(NotTaken, match="this server ends"):
        receiver.send([an_entry()])


def test_a_new_token_counts_at_once_and_without_its_file_nothing_is_sent(received: Collector, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.touch(0o600)
    file.write_text("authorization: Bearer one\n")
    receiver = to(received.url, file)
    receiver.send([an_entry()])
    file.write_text("authorization: Bearer two\n")
    receiver.send([an_entry()])
    file.unlink()
    with pytest.raises(NotTaken, match=r"record\.exports\.collector\.headers_file"):
        receiver.send([an_entry()])
    assert [one["authorization"] for one in received.headers] == ["Bearer one", "Bearer two"]
