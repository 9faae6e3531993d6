"""A job file trains a model at two parties and predicts with it in a later task: components of a third provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, csv_text, running_cluster

pytestmark = pytest.mark.timeout(900)

JOB = f"""
version: 1
initiator: guest {GUEST}
parties: {{guest: [{GUEST}], host: [{HOST}]}}
tasks:
  read:
    component: Reader
    outputs: {{data: [rows]}}
    parameters: {{table: {{namespace: trial, name: shop}}}}
  train:
    component: Fit
    stage: train
    inputs: {{train_data: read.rows}}
  score:
    component: Fit
    stage: predict
    inputs: {{test_data: read.rows, input_model: train.output_model}}
  total:
    component: SecureSum
    inputs: {{data: score.test_output_data}}
    parameters: {{column: above}}
"""
ROWS = {GUEST: {"a": 1, "b": 2, "c": 6}, HOST: {"a": 10, "b": 20, "c": 30}}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("FATE_FLOW_TINY_PROVIDER", "1")
    with running_cluster(tmp_path / "models", (GUEST, HOST), base_port=BASE_PORT + 140) as cluster:
        for party_id, rows in ROWS.items():
            text = csv_text(["id", "x"], {sid: [value] for sid, value in rows.items()})
            cluster.parties[party_id].has_table("shop", text, namespace="trial")
        yield cluster


def test_a_model_is_trained_and_used_by_its_name_at_each_party(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("input_model: train", "imput_model: train"), encoding="utf-8")
    refused = cluster.guest.flow("job", "validate", "-f", path, code=1)
    assert "tasks.score.inputs.imput_model: Fit has no such input; did you mean input_model" in refused.out
    path.write_text(JOB, encoding="utf-8")
    assert cluster.guest.flow("job", "validate", "-f", path).document["retcode"] == 0
    job_id = cluster.guest.flow("job", "submit", "-f", path).job_id
    cluster.wait(job_id, "success")
    for party_id, rows in ROWS.items():
        server, role = cluster.parties[party_id], "guest" if party_id == GUEST else "host"
        seat = {"job_id": job_id, "role": role, "party_id": party_id}
        trained, scored = (
            json.loads(row["f_summary"]) for row in server.rows(
                "SELECT f_summary FROM t_component_summary WHERE f_job_id = ? AND f_component_name IN (?, ?) "
                "ORDER BY f_component_name DESC", job_id, "train", "score")
        )  # fmt: skip
        assert trained["models"] == {"output_model": "json_model"}
        assert (trained["stage"], trained["outputs"]) == ("train", sorted(
            ["metric", "output_model"] + (["train_output_data"] if role == "guest" else [])))
        model = scored["inputs"]["input_model"]
        assert model["metadata"]["trained_by"].startswith(f"{job_id}_train_0_{role}_{party_id}")
        kept = Path(model["uri"].removeprefix("file://"))
        assert kept.is_relative_to(server.home / "jobs" / job_id / role / party_id / "train")
        mean = sum(rows.values()) / len(rows)
        assert json.loads(kept.read_text(encoding="utf-8")) == {"mean": mean}
        [data] = server.ask("tracking/component/output/data/table", {**seat, "component_name": "score"})
        assert data["data_name"] == "test_output_data"
        assert [other.home for other in cluster.parties.values() if list(other.home.rglob("output_model"))] == [
            other.home for other in cluster.parties.values()]
    assert float(cluster.guest.metrics(job_id, "total")["total"]) == pytest.approx(0)
    cluster.check_idle()
