"""Jobs that inherit tasks of another job, at two real parties: nothing runs twice, and a prediction finds all models
under the id of the later job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, csv_text, running_cluster

pytestmark = pytest.mark.timeout(900)

ROWS = {GUEST: {"a": 1, "b": 2, "c": 6}, HOST: {"a": 10, "b": 20, "c": 30}}
SEATS = {GUEST: "guest", HOST: "host"}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("FATE_FLOW_TINY_PROVIDER", "1")
    with running_cluster(tmp_path / "inheritance", (GUEST, HOST), base_port=BASE_PORT + 140) as cluster:
        for party_id, rows in ROWS.items():
            text = csv_text(["id", "x"], {sid: [value] for sid, value in rows.items()})
            cluster.parties[party_id].has_table("shop", text, namespace="trial")
        yield cluster


def channel(producer: str, key: str) -> dict[str, Any]:
    return {"task_output_artifact": {"producer_task": producer, "output_artifact_key": key}}


def stored(producer: str, key: str) -> dict[str, Any]:
    return {"model_warehouse": {"producer_task": producer, "output_artifact_key": key}}


READ = {
    "component_ref": "reader", "parameters": {"table": {"namespace": "trial", "name": "shop"}},
    "outputs": {"data": {"data": {"output_artifact_key_alias": "rows"}}},
}  # fmt: skip
FIT = {
    "component_ref": "fit", "stage": "train", "dependent_tasks": ["read_0"],
    "inputs": {"data": {"train_data": channel("read_0", "rows")}},
}  # fmt: skip


def score(model: dict[str, Any]) -> dict[str, Any]:
    data = {"test_data": channel("read_0", "rows")}
    return {"component_ref": "fit", "stage": "predict", "inputs": {"data": data, "model": {"input_model": model}}}


def submitted(cluster: Cluster, conf: dict[str, Any], **tasks: Any) -> dict[str, Any]:
    parties = [{"role": role, "party_id": [party_id]} for party_id, role in SEATS.items()]
    body = {"schema_version": "2.2.0", "dag": {"parties": parties, "conf": conf, "tasks": tasks}}
    found: dict[str, Any] = cluster.guest.raw("POST", "job/submit", api="v2", json={"dag_schema": body}).json()
    return found


def has_run(cluster: Cluster, conf: dict[str, Any], **tasks: Any) -> str:
    found = submitted(cluster, conf, **tasks)
    assert found["code"] == 0, found
    cluster.wait(found["job_id"], "success")
    return str(found["job_id"])


def means(cluster: Cluster, job_id: str) -> list[str]:
    """Who has trained the model with which each party scores."""
    found = []
    for party_id, role in SEATS.items():
        seat = {"job_id": job_id, "role": role, "party_id": party_id, "component_name": "score_0"}
        summary = cluster.parties[party_id].ask("tracking/component/summary/download", seat)
        found.append(summary["inputs"]["input_model"]["metadata"]["trained_by"])
    return found


@pytest.mark.heavy
def test_a_job_reuses_tasks_of_another_one(cluster: Cluster, tmp_path: Path) -> None:
    first = has_run(cluster, {}, read_0=READ, fit_0=FIT)
    inherits = {"inheritance": {"job_id": first, "task_list": ["read_0", "fit_0"]}}
    tasks = {"read_0": READ, "fit_0": FIT, "score_0": score(channel("fit_0", "output_model"))}
    second = has_run(cluster, inherits, **tasks)
    for server in cluster.parties.values():
        assert [row["f_component_name"] for row in server.tasks(second)] == ["score_0"]
    trained = [f"{first}_fit_0_0_{role}_{party_id}" for party_id, role in SEATS.items()]
    assert [one.startswith(name) for one, name in zip(means(cluster, second), trained, strict=True)] == [True, True]
    [row] = cluster.guest.raw("GET", "job/query", api="v2", params={"job_id": second}).json()["data"]
    assert row["inheritance"] == {**inherits["inheritance"], "model_id": first, "model_version": "0"}

    # The model that was inherited is one of the second job as well, under which a prediction names it.
    conf = {"model_warehouse": {"model_id": second, "model_version": "0"}}
    third = has_run(cluster, conf, read_0=READ, score_0=score(stored("fit_0", "output_model")))
    assert means(cluster, third) == means(cluster, second)

    # The same in a file, by this server's own `flow`.
    path = tmp_path / "dag.yaml"
    parties = [{"role": role, "party_id": [party_id]} for party_id, role in SEATS.items()]
    dag = {"parties": parties, "conf": inherits, "tasks": tasks}
    path.write_text(yaml.safe_dump({"schema_version": "2.2.0", "dag": dag}), encoding="utf-8")
    fourth = cluster.guest.flow("job", "submit", "-f", path).job_id
    cluster.wait(fourth, "success")
    assert means(cluster, fourth) == means(cluster, second)
    cluster.check_idle()


@pytest.mark.heavy
def test_what_cannot_be_inherited_is_refused(cluster: Cluster) -> None:
    first = has_run(cluster, {}, read_0=READ)
    tasks = {"read_0": READ, "fit_0": FIT}
    for asked, problem in (
        ({"job_id": "2026010112000000000001234", "task_list": ["read_0"]}, "party 9999 has no job"),
        ({"job_id": first, "task_list": ["fit_0"]}, f"'fit_0' cannot be inherited from job {first}: it has no"),
    ):
        found = submitted(cluster, {"inheritance": asked}, **tasks)
        assert (found["code"], problem in found["message"]) == (1007, True), found
    cluster.check_idle()
