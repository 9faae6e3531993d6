"""`/v1/metrics` on the workers' listener: what a worker reports while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from fate_flow.api.between_parties.exchange import ForwardReply
from fate_flow.api.workers.metric_space import MetricSpace
from fate_flow.api.workers.worker import create_worker_app
from fate_flow.core.metrics.form import PIECE_BYTES
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session
from fate_flow.store.memory.results import Results
from fate_flow.store.memory.store import MemoryStore

JOB = "20260101120000000000"
GUEST, HOST = ("guest", "9999"), ("host", "10000")
KEY = TaskKey(JOB, "a_task_0", 2, Party(*GUEST))
LOSS = {
    "name": "loss", "type": "loss", "groups": [{"name": "default", "index": None}], "step_axis": "iterations",
    "data": [{"metric": 0.5, "step": 0, "timestamp": 1.5}],
}  # fmt: skip
MOST_BYTES = 600 + 3 * PIECE_BYTES


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def client(store: MemoryStore, tmp_path: Path) -> FlaskClient:
    spool = Spool(tmp_path, SpoolLimits(), lambda: None)
    spool.open(Session(JOB, KEY.task_id, 2, "a1b2c3d4", *GUEST), (GUEST, HOST), "own-token")
    app = create_worker_app(
        spool, lambda *_: ForwardReply(200), 2, lambda _: None, 1 << 20, store, lambda: 7, tmp_path, MOST_BYTES
    )
    return app.test_client()


def ask(client: FlaskClient, body: Any, path: str = "/v1/metrics", token: str = "own-token") -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    response = client.post(path, json=body, headers=headers)
    assert response.status_code == 200
    found: dict[str, Any] = response.json      # type: ignore[assignment]
    return found


def kept(store: MemoryStore) -> list[tuple[str, str, Any]]:
    with store.reading() as tx:
        return [(one.namespace, one.name, one.data) for one in tx.metrics(JOB, KEY.name, KEY.party)]


def test_the_token_says_whose_metrics_they_are(client: FlaskClient, store: MemoryStore) -> None:
    ours = {"namespace": "train", "name": "auc", "data": [["auc", 0.9]], "meta": {}}
    assert ask(client, {"data": [LOSS, ours]})["retcode"] == 0
    assert ask(client, {"data": [LOSS]})["retcode"] == 0
    loss = ("default", "loss", ((0, 0.5, 1.5),))
    assert kept(store) == [loss, ("train", "auc", (("auc", 0.9),)), loss]
    with store.reading() as tx:
        assert {one.task for one in tx.metrics(JOB, KEY.name, KEY.party)} == {KEY}


@pytest.mark.parametrize("token", ["", "another"])
def test_nobody_else_reports_metrics(client: FlaskClient, store: MemoryStore, token: str) -> None:
    said = ask(client, {"data": [LOSS]}, token=token)
    assert "this is not the token of a running worker" in said["retmsg"]
    assert kept(store) == []


@pytest.mark.parametrize(("body", "why"), [
    ({}, "data: null is not a list of metrics"),
    ({"data": [LOSS, {"name": "auc"}]}, "data: metric auc: data: null is neither a list nor an object"),
    ({"data": [7]}, "data: 7 is not an object with name and data"),
])
def test_what_is_no_metric_is_refused_as_a_whole(
    client: FlaskClient, store: MemoryStore, body: dict[str, Any], why: str
) -> None:
    said = ask(client, body)
    assert (said["retcode"], why in said["retmsg"]) == (101, True), said
    assert kept(store) == []


def test_metrics_without_content_count_too(client: FlaskClient, store: MemoryStore) -> None:
    empty = {"namespace": "n" * 100, "name": "m" * 100, "data": [], "meta": {}}
    assert "limits.metrics_max_bytes" in ask(client, {"data": [empty] * 5})["retmsg"]
    answers = [ask(client, {"data": [empty]})["retcode"] for _ in range(5)]
    assert answers == [0, 0, *[answers[-1]] * 3]
    assert answers[-1] != 0
    assert len(kept(store)) == 2


def test_all_metrics_of_a_job_are_summed_now_and_then_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store, summed, space = MemoryStore(), list[str](), MetricSpace(80_000)
    size = Results.metric_size

    def metric_size(self: Results, job_id: str) -> int:
        summed.append(job_id)
        return size(self, job_id)

    monkeypatch.setattr(Results, "metric_size", metric_size)
    with store.transaction() as tx:
        for _ in range(100):
            space.take(tx, "j1", 1)
        space.take(tx, "j2", 70_000)
        assert summed == ["j1", "j2"]
        for _ in range(1_000):
            space.take(tx, "j1", 1)
        assert summed == ["j1", "j2", "j1"]
        for _ in range(3):                     # nothing of it was stored: the transactions have failed, say
            space.take(tx, "j2", 70_000)
        with pytest.raises(OperationFailed, match="more than 80000 bytes"):
            space.take(tx, "j2", 80_001)


def test_a_job_may_have_so_many_metrics_and_no_more(client: FlaskClient, store: MemoryStore) -> None:
    answers = [ask(client, {"data": [LOSS]}) for _ in range(6)]
    assert answers[0]["retcode"] == 0
    assert answers[-1]["retcode"] != 0
    assert answers[-1]["retmsg"].endswith(
        f"the metrics of job {JOB} would take more than {MOST_BYTES} bytes here (limits.metrics_max_bytes)"
    )
    taken = [one["retcode"] for one in answers].count(0)
    assert 1 <= taken == len(kept(store)) < 6
    tracker = f"/v1/tracker/{JOB}/{KEY.name}/{KEY.task_id}/2/guest/9999/metric_data/save"
    more = {"metric_namespace": "n", "metric_name": "m", "metrics": [[0, "x" * MOST_BYTES]]}
    assert "limits.metrics_max_bytes" in ask(client, more, tracker)["retmsg"]
    assert len(kept(store)) == taken
