"""Metrics while a program or a component of a provider runs: collected, and sent to the own server."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from fate_flow.components import metrics as metrics_of_programs
from fate_flow.components.metrics import Reporter, Sender, post_to, reporter
from fate_flow.components.provider_process.metrics import Received, Receiver, add_file
from fate_flow.core.metrics.form import read_metric
from tests.kit.cli.stub_server import Stub, running_stub


class Server:
    """Takes what is sent to it, or does what it is told to."""

    def __init__(self) -> None:
        self.now, self.sent = 0.0, list[list[dict[str, Any]]]()
        self.says: str | OSError = ""

    def post(self, body: bytes) -> str:
        if isinstance(self.says, OSError):
            raise self.says
        if not self.says:
            self.sent.append(json.loads(body)["data"])
        return self.says

    def sender(self) -> Sender:
        return Sender(self.post, lambda: self.now)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running_stub() as stub:
        yield stub


def losses(server: Server) -> list[list[float]]:
    return [[point[1] for one in metrics for point in one["data"]] for metrics in server.sent]


def test_points_that_come_fast_are_sent_together(server: Server) -> None:
    metrics = Reporter(server.sender())
    for number in range(4):
        server.now = number * 0.2
        metrics.step("loss", 1 / (number + 1), number)
    assert losses(server) == [[1.0], [0.5, 1 / 3, 0.25]]
    metrics.step("loss", 0.2, 4)
    assert len(server.sent) == 2
    metrics.flush()
    metrics.flush()
    assert losses(server)[2:] == [[0.2]]
    [first] = server.sent[0]
    assert (first["namespace"], first["name"], first["data"][0][:2]) == ("default", "loss", [0, 1.0])
    assert (first["meta"]["metric_type"], first["meta"]["step_axis"]) == ("loss", "iterations")


def test_what_a_server_did_not_take_is_sent_again_or_named_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Reporter(server.sender())
    server.says = ConnectionRefusedError("nobody")
    for number in range(3):
        server.now += 1
        metrics.step("loss", number, number)
    assert [one.message for one in caplog.records] == ["metrics are not recorded: the server does not answer: nobody"]
    server.says = ""
    metrics.flush()
    assert losses(server) == [[0, 1, 2]]
    server.says = "too many"
    metrics.report("evaluation", {"auc": 0.9})
    metrics.flush()
    server.says = ""
    metrics.flush()
    assert len(server.sent) == 1, "a refusal is final"


def test_what_a_busy_server_has_got_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    """It answers after the deadline, and the points stand in its database."""
    monkeypatch.setattr(metrics_of_programs, "_TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = Sender(post_to(f"http://127.0.0.1:{listener.getsockname()[1]}/v1/exchange", "secret"), lambda: 0.0)
        metrics = Reporter(sender)
        metrics.step("loss", 0.5, 0)
        listener.setblocking(False)
        listener.accept()[0].close()
        metrics.flush()
        with pytest.raises(BlockingIOError):
            listener.accept()
    said = "metrics are not recorded: the server has not said within 0.05 s whether it took them"
    assert [one.message for one in caplog.records] == [said]


def test_an_unsent_heap_does_not_grow_for_ever(server: Server) -> None:
    server.says = ConnectionRefusedError("nobody")
    metrics = Reporter(server.sender())
    server.sender().add([])
    metrics.sender.add([read_metric({"namespace": "n", "name": "m", "data": [[one, one] for one in range(10_001)]})])
    server.says = ""
    metrics.flush()
    assert server.sent == []


def test_a_program_finds_its_server_in_its_environment(stub: Stub) -> None:
    stub.answers({"retcode": 0}, {"retcode": 101, "retmsg": "too many"})
    env = {
        "FATE_FLOW_EXCHANGE_URL": f"{stub.url}/v1/exchange", "FATE_FLOW_EXCHANGE_TOKEN": "secret",
        "FATE_FLOW_PARTY_RANK": "1", "FATE_FLOW_PARTY_SIZE": "2",
    }  # fmt: skip
    metrics = reporter(env)
    metrics.step("loss", 0.5, 0)
    metrics.flush()
    asked = stub.last
    assert (asked.method, asked.path, asked.headers["Authorization"]) == ("POST", "/v1/metrics", "Bearer secret")
    [sent] = asked.json["data"]
    assert sent["namespace"] == "default/rank-1"
    assert "too many" in post_to(env["FATE_FLOW_EXCHANGE_URL"], "secret")(b"{}")
    alone = {**env, "FATE_FLOW_PARTY_SIZE": "1"}
    assert len(reporter(alone).groups) == 1
    spare = {key: value for key, value in alone.items() if key != "FATE_FLOW_PARTY_RANK"}
    assert reporter({**spare, "FATE_FLOW_WORKER_SLOT": "4"}).groups[-1] == {"name": "rank", "index": 4}
    with pytest.raises(KeyError):
        reporter({})


# ---------------------------------------------------------------------- a component of a provider


def loss(step: int) -> dict[str, Any]:
    point = {"metric": 1 / (step + 1), "step": step, "timestamp": 1.5}
    return {"name": "loss", "type": "loss", "groups": [], "step_axis": "iterations", "data": [point]}


def send(uri: str, body: bytes) -> dict[str, Any]:
    with urlopen(Request(uri, body)) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_a_component_sends_its_metrics_one_by_one(server: Server) -> None:
    received = Received(server.sender())
    receiver = Receiver(received)
    for step in range(3):
        assert send(receiver.uri, json.dumps({"data": [loss(step)]}).encode())["code"] == 0
    with pytest.raises(HTTPError, match="404"):
        send(f"{receiver.uri}x", b"{}")
    receiver.close()
    assert [one for sent in losses(server) for one in sent] == [1.0, 0.5, 1 / 3], "all have reached the server"
    [metric] = received.metrics
    assert metric["data"] == [[0, 1.0, 1.5], [1, 0.5, 1.5], [2, 1 / 3, 1.5]]


@pytest.mark.parametrize(("body", "why"), [
    (b"{", "the body is not JSON"), (b"[]", "the body is not an object with a list of metrics, data"),
    (b'{"data": [{"name": 3}]}', "name: 3 is not a text"),
])
def test_a_bad_metric_is_answered_and_logged(
    server: Server, caplog: pytest.LogCaptureFixture, body: bytes, why: str
) -> None:
    received = Received(server.sender())
    assert received.take(body) == why
    assert received.metrics == []
    assert caplog.messages == [f"metrics of the component are left out: {why}"]


def test_a_component_has_no_more_metrics_than_a_job_may_have(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    received = Received(server.sender(), most_bytes=200)
    bodies = [json.dumps({"data": [loss(step)]}).encode() for step in range(2)]
    assert [received.take(body) for body in bodies] == ["", "they have more than 200 bytes"]
    assert len(received.metrics[0]["data"]) == 1
    assert "more than 200 bytes" in caplog.text


def test_a_component_may_write_a_file_instead(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    received, path = Received(server.sender()), tmp_path / "metric.json"
    caplog.set_level(logging.ERROR)
    add_file(received, path)
    assert caplog.messages == [], "it has written none"
    path.write_text(json.dumps([loss(0), {"name": "auc"}]))
    add_file(received, path)
    assert [one["name"] for one in received.metrics] == ["loss"]
    for text in ("[", "{}"):
        path.write_text(text)
        add_file(received, path)
    assert [one.partition("left out: ")[2].replace(str(path), "it") for one in caplog.messages] == [
        "metric auc: data: null is neither a list nor an object", "it is not JSON: JSONDecodeError",
        "it is not a list of metrics",
    ]  # fmt: skip
