"""What FATE's components make, for people, for components of ours, and for later jobs: tables and stored models."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, stdev

import pytest

from tests.kit.fate.jobs import AT_GUEST, AT_HOST, Fate, Run
from tests.kit.fate.rows import BANK, COMMON, LABEL, NAMESPACE, TELECOM, everybody, give
from tests.kit.servers.party_servers import GUEST, HOST, OTHER

pytestmark = pytest.mark.timeout(900)

COLUMNS = {AT_GUEST: BANK, AT_HOST: TELECOM}
START = f"""
version: 1
initiator: guest {GUEST}
parties: {{guest: [{GUEST}], host: [{HOST}], arbiter: [{OTHER}]}}
tasks:
  read:
    component: Reader
    outputs: {{data: [rows]}}
    at:
      guest: {{parameters: {{table: {{namespace: trial, name: bank}}}}}}
      host: {{parameters: {{table: {{namespace: trial, name: telecom}}}}}}
      arbiter: {{run: false}}
  match: {{component: fate.psi, inputs: {{input_data: read.rows}}}}
"""
TRAIN = """
  total:
    component: SecureSum
    inputs: {data: match.output_data}
    parameters: {precision: 4}
    at: {guest: {parameters: {column: age}}, host: {parameters: {column: calls}}, arbiter: {run: false}}
  scale:
    component: fate.feature_scale
    stage: train
    inputs: {train_data: match.output_data}
    parameters: {method: standard}
  train:
    component: fate.coordinated_lr
    stage: train
    inputs: {train_data: scale.train_output_data}
    parameters:
      epochs: 1
      tol: 0.0
      init_param: {method: zeros, fit_intercept: true}
      optimizer: {method: sgd, penalty: l2, alpha: 0.01, optimizer_params: {lr: 0.5}}
      learning_rate_scheduler: {method: linear, scheduler_params: {start_factor: 1.0}}
"""
PREDICT = """
  scale:
    component: fate.feature_scale
    stage: predict
    inputs: {{test_data: match.output_data, input_model: {{model: {{id: "{job}", version: 0, task: scale, output: output_model}}}}}}
  score:
    component: fate.coordinated_lr
    stage: predict
    inputs: {{test_data: scale.test_output_data, input_model: {{model: {{id: "{job}", version: 0, task: train, output: output_model}}}}}}
"""  # noqa: E501


def scores(run: Run, named: str, folder: Path) -> dict[str, float]:
    found = {sid: float(row["predict_score"]) for sid, row in run.rows(AT_GUEST, named, folder).items()}
    assert sorted(found) == COMMON
    return found


def test_tables_go_in_and_out_and_a_stored_model_predicts_what_it_did_when_it_was_trained(
    by_columns: Fate, tmp_path: Path
) -> None:
    """A later job names the model of each party; another one gets it from a deployment, as FATE v1 does."""
    parties, guest = by_columns.parties, by_columns.parties.guest
    run = by_columns.run(START + TRAIN)
    tables_are_those_of_one_place(run, tmp_path)
    trained = scores(run, "train.train_output_data", tmp_path)
    again = by_columns.run(START + PREDICT.format(job=run.job_id))
    assert scores(again, "score.test_output_data", tmp_path) == pytest.approx(trained, abs=1e-9)

    named = ("--model-id", f"arbiter-{OTHER}#guest-{GUEST}#host-{HOST}#model", "--model-version")
    made = guest.flow("model", "deploy", *named, run.job_id, "--cpn-list", "read,match,scale,train").document
    assert made["retcode"] == 0, made
    for what in ("dsl", "conf"):
        guest.flow("model", f"get-predict-{what}", *named, made["data"]["model_version"], "-o", tmp_path)
    [dsl], [conf] = (tmp_path.glob(f"predict_{what}_*.json") for what in ("dsl", "conf"))
    document = {"job_dsl": json.loads(dsl.read_text()), "job_runtime_conf": json.loads(conf.read_text())}
    at_roles = document["job_runtime_conf"]["component_parameters"]["role"]
    for role, name in (("guest", "bank"), ("host", "telecom")):
        at_roles[role]["0"]["read"] = {"table": {"namespace": NAMESPACE, "name": name}}
    predicted = Run(by_columns, parties.run(document))
    assert scores(predicted, "train", tmp_path) == pytest.approx(trained, abs=1e-9)
    listed = guest.flow("model", "list").out
    assert run.job_id in listed


def tables_are_those_of_one_place(run: Run, folder: Path) -> None:
    for seat, columns in COLUMNS.items():
        found = run.rows(seat, "scale.train_output_data", folder)
        assert sorted(found) == COMMON
        for name in columns:
            values = {sid: everybody()[sid][name] for sid in COMMON}
            mean, width = fmean(values.values()), stdev(values.values())
            wanted = {sid: (value - mean) / width for sid, value in values.items()}
            assert {sid: float(row[name]) for sid, row in found.items()} == pytest.approx(wanted, abs=1e-5), name
    labels = {sid: float(row[LABEL]) for sid, row in run.rows(AT_GUEST, "match.output_data", folder).items()}
    assert labels == {sid: everybody()[sid][LABEL] for sid in COMMON}
    total = sum(everybody()[sid]["age"] + everybody()[sid]["calls"] for sid in COMMON)
    assert float(run.fate.parties.guest.metrics(run.job_id, "total")["total"]) == pytest.approx(total, rel=1e-6)


# ---------------------------------------------------------------------- many partitions

PARTITIONS = 36
ROWS = PARTITIONS * 16
"""A partition has no fewer than 16."""
MANY = f"""
version: 1
initiator: guest {GUEST}
parties: {{guest: [{GUEST}], host: [{HOST}]}}
resources: {{cores: 2, partitions: {PARTITIONS}}}
tasks:
  read:
    component: Reader
    outputs: {{data: [rows]}}
    parameters: {{table: {{namespace: trial, name: many}}}}
  match: {{component: fate.psi, inputs: {{input_data: read.rows}}}}
  describe:
    component: fate.statistics
    inputs: {{input_data: match.output_data}}
    parameters: {{metrics: [mean]}}
"""


def test_many_partitions_cross_between_parties(fate: Fate, tmp_path: Path) -> None:
    """More partitions than a server has slots for waiting pops, 16; each is a message of its own."""
    values = {f"r{number:04}": number for number in range(ROWS + 100)}
    for party, start in ((fate.parties.guest, 0), (fate.parties.host, 100)):
        lines = [f"{sid},{number % 2},{number}" for sid, number in values.items() if start <= number < ROWS + start]
        give(party, "many", "\n".join(["id,y,x", *lines, ""]), label_name="y", dtype="float64")
    run = fate.run(MANY)
    common = [sid for sid, number in values.items() if 100 <= number < ROWS]
    for seat in (AT_GUEST, AT_HOST):
        assert sorted(run.rows(seat, "match.output_data", tmp_path)) == common
        described = run.model(seat, "describe")["data"]["metrics_summary"]["x"]
        assert described["mean"] == pytest.approx(fmean(values[sid] for sid in common), rel=1e-5)
        frame = run.outputs(seat, "match")["data"]["output_data"]["uri"].removeprefix("standalone://")
        assert len([one for one in Path(frame).iterdir() if one.is_dir()]) == PARTITIONS, "a folder for each"
