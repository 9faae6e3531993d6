"""A job file trains a model at two parties and predicts with it in a later task, or in a later job, which reads it from
the store of each party: components of a third provider."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.servers.home_files import paths_below
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, PartyServer, csv_text, running_cluster
from tests.kit.waiting import eventually

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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FATE_FLOW_TINY_PROVIDER", "1")
        root = tmp_path_factory.mktemp("models") / "servers"
        with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 140) as cluster:
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
        assert [other.home for other in cluster.parties.values()
                if not any(path.name == "output_model" for path in paths_below(other.home))] == []
    assert float(cluster.guest.metrics(job_id, "total")["total"]) == pytest.approx(0)
    cluster.check_idle()


PREDICT = f"""
version: 1
initiator: guest {GUEST}
parties: {{{{guest: [{GUEST}], host: [{HOST}]}}}}
tasks:
  read:
    component: Reader
    outputs: {{{{data: [rows]}}}}
    parameters: {{{{table: {{{{namespace: trial, name: shop}}}}}}}}
  score:
    component: Fit
    stage: predict
    inputs:
      test_data: read.rows
      input_model: {{{{model: {{{{id: "{{model}}", version: {{version}}, task: train, output: output_model}}}}}}}}
"""


def history(server: PartyServer, job_id: str) -> str:
    return json.dumps(server.ask("job/history", {"job_id": job_id}))


@pytest.mark.heavy
def test_a_later_job_reads_the_model_from_the_store_of_each_party(cluster: Cluster, tmp_path: Path) -> None:
    train = tmp_path / "train.yaml"
    train.write_text(JOB[:JOB.index("  score:")], encoding="utf-8")
    job_id = cluster.guest.flow("job", "submit", "-f", train).job_id
    cluster.wait(job_id, "success")
    stored = {}
    for party_id, role in ((GUEST, "guest"), (HOST, "host")):
        server = cluster.parties[party_id]
        [row] = server.rows("SELECT * FROM t_stored_model WHERE f_model_id = ?", job_id)
        file = server.home / "models" / job_id / "0" / role / party_id / "train" / "output_model.tar"
        assert (row["f_model_id"], row["f_model_version"], row["f_role"]) == (job_id, 0, role)
        content = file.read_bytes()
        assert (row["f_sha256"], row["f_bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
        stored[party_id] = row["f_sha256"]
        # In the store, and in the folder of the worker.
        assert [other for other in cluster.parties.values() for path in paths_below(other.home)
                if path.suffix == ".tar" and job_id in path.parts and role in path.parts] == [server, server]
    # The digests of both parts are in the history of the initiator, which asks the host for its own.
    eventually(lambda: stored[HOST] in history(cluster.guest, job_id), lambda: history(cluster.guest, job_id))
    assert stored[GUEST] in history(cluster.guest, job_id)
    assert [stored[one] in history(cluster.host, job_id) for one in (GUEST, HOST)] == [False, True]

    path = tmp_path / "predict.yaml"
    path.write_text(PREDICT.format(model=job_id, version="latest"), encoding="utf-8")
    predicted = cluster.guest.flow("job", "submit", "-f", path).job_id
    cluster.wait(predicted, "success")
    for party_id, role in ((GUEST, "guest"), (HOST, "host")):
        server, seat = cluster.parties[party_id], {"job_id": predicted, "role": role, "party_id": party_id}
        summary = server.ask("tracking/component/summary/download", {**seat, "component_name": "score"})
        trained_by = summary["inputs"]["input_model"]["metadata"]["trained_by"]
        assert trained_by.startswith(f"{job_id}_train_0_{role}_{party_id}")
        assert stored[party_id] in history(server, predicted)
    eventually(lambda: stored[HOST] in history(cluster.guest, predicted), lambda: history(cluster.guest, predicted))
    latest = f"tasks.score.inputs.input_model: latest is train.output_model of model {job_id} version 0"
    assert latest in history(cluster.guest, predicted)

    # A rerun that trains again makes the next version; one that keeps the task gives its model the next version, too.
    cluster.guest.flow("job", "rerun", "-j", job_id, "--force")
    cluster.wait(job_id, "success")
    assert [row["v"] for row in cluster.host.rows(
        "SELECT f_model_version AS v FROM t_stored_model WHERE f_model_id = ? ORDER BY f_model_version", job_id,
    )] == [0, 1]
    assert (cluster.host.home / "models" / job_id / "1" / "host" / HOST / "train" / "output_model.tar").exists()

    # A party whose part is gone refuses, and is named.
    path.write_text(PREDICT.format(model=job_id, version=7), encoding="utf-8")
    refused = cluster.guest.flow("job", "submit", "-f", path, code=1)
    assert f"guest {GUEST} has no part of train.output_model of model {job_id} version 7" in refused.out
    shutil.rmtree(cluster.host.home / "models" / job_id / "1")
    path.write_text(PREDICT.format(model=job_id, version="latest"), encoding="utf-8")     # 1 here, so at all parties
    wrong = cluster.guest.flow("job", "validate", "-f", path, code=1).out
    assert f"host {HOST}: the file of train.output_model" in wrong
    refused = cluster.guest.flow("job", "submit", "-f", path, code=1)
    assert f"host {HOST}: the file of train.output_model of model {job_id} version 1 is missing" in refused.out
    cluster.check_idle()
