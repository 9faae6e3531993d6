"""The pipeline of fate_client 2.2.0, unmodified, trains and predicts with FATE's own components at real servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.genuine.genuine_client import GenuineClient, Printed
from tests.kit.servers.party_servers import GUEST, HOST, OTHER, Cluster, csv_text

pytestmark = pytest.mark.timeout(900)

BANK, TELECOM = ("age", "income"), ("calls", "bill")
COMMON = range(40, 160)


@pytest.fixture
def customers() -> Mapping[str, Mapping[str, float]]:
    """What is known of each, and whether it is so for one with these columns."""
    chance, found = Random(22), {}
    for number in range(200):
        row = {name: round(chance.gauss(0, 1), 3) for name in (*BANK, *TELECOM)}
        is_one = row["age"] - row["bill"] + chance.gauss(0, 0.5) > 0
        found[f"c{number:03}"] = {**row, "y": int(is_one)}
    return found


def csv_of(customers: Mapping[str, Mapping[str, float]], columns: tuple[str, ...], numbers: range) -> str:
    return csv_text(["id", *columns], {
        one: [customers[one][name] for name in columns] for one in (f"c{number:03}" for number in numbers)
    })  # fmt: skip


def step(client: GenuineClient, *argv: str) -> dict[str, Any]:
    with client.forked_pipeline("pipeline_2_script.py") as pipeline:
        printed: Printed = pipeline(*argv)
    assert printed.code == 0, f"{printed.out[-2000:]}\n{printed.err[-3000:]}"
    found = json.loads(printed.out.rstrip().splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_a_pipeline_trains_deploys_and_predicts(
    client_of_fate: GenuineClient, fate_parties: Cluster, customers: Mapping[str, Mapping[str, float]], tmp_path: Path
) -> None:  # fmt: skip
    """As FATE's own examples do: the guest's rows come from the client, and all results are read through it."""
    bank = tmp_path / "bank.csv"
    bank.write_text(csv_of(customers, ("y", *BANK), range(160)), encoding="utf-8")
    step(client_of_fate, "upload", str(bank), "bank", "y")
    meta = {"match_id_name": "id", "dtype": "float64"}
    text = csv_of(customers, TELECOM, range(40, 200))
    fate_parties.host.has_table("telecom", text, namespace="trial", meta=meta)
    found = step(client_of_fate, "train", GUEST, HOST, OTHER)
    counts = [one["data"]["intersect_count"] for one in found["intersection"] if one["name"] == "summary"]
    assert counts == [len(COMMON)], found["intersection"]
    [auc] = values_of(found["evaluation"], "auc")
    assert auc > 0.8
    weights = found["model"]["output_model"]["data"]["estimator"]["param"]["coef_"]
    assert len(weights) == len(BANK)
    assert found["model_id"] == found["job"]
    trained, predicted = found["scores"]["train_output_data"], found["predicted"]["test_output_data"]
    assert len(trained["rows"]) == len(predicted["rows"]) == len(COMMON)
    assert score_by_id(predicted) == pytest.approx(score_by_id(trained), abs=1e-6)
    assert fate_parties.guest.job(found["predict_job"])["f_status"] == "success"


def test_a_second_job_trains_on_with_what_it_inherits(
    client_of_fate: GenuineClient, fate_parties: Cluster, customers: Mapping[str, Mapping[str, float]]
) -> None:
    """Warm start, inheritance, and a deployment of several tasks that read models; one party in two roles."""
    meta = {"match_id_name": "id", "dtype": "float64"}
    labelled = {**meta, "label_name": "y", "label_type": "int32"}
    common = range(40)
    fate_parties.guest.has_table("bank_2", csv_of(customers, ("y", *BANK), common), namespace="trial", meta=labelled)
    fate_parties.host.has_table("telecom_2", csv_of(customers, TELECOM, common), namespace="trial", meta=meta)
    found = step(client_of_fate, "go_on", GUEST, HOST, "bank_2", "telecom_2")
    job_id = found["went_on"]["job"]
    assert [row["f_component_name"] for row in fate_parties.guest.tasks(job_id)] == ["lr_1"]
    weights = [
        found[key]["model"]["output_model"]["data"]["estimator"]["param"]["coef_"] for key in ("trained", "went_on")
    ]
    # The second round adds less than the first, in the same direction: it began where that had ended.
    assert [len(one) for one in weights] == [len(BANK)] * 2
    [before], [after] = weights[0][0], weights[1][0]
    assert 1.0 < after / before < 2.0, weights
    trained, predicted = found["went_on"]["scores"]["train_output_data"], found["predicted"]["test_output_data"]
    assert len(predicted["rows"]) == len(common)
    assert score_by_id(predicted) == pytest.approx(score_by_id(trained), abs=1e-6)
    assert fate_parties.guest.job(found["predict_job"])["f_status"] == "success"


def values_of(value: Any, metric: str) -> list[float]:
    """All values of this metric, however deep they stand."""
    if isinstance(value, dict) and value.get("metric") == metric:
        return [value["val"]]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for one in inside for found in values_of(one, metric)]


def score_by_id(frame: Mapping[str, Any]) -> dict[str, float]:
    """What the model says of each customer, in a frame that FATE has made of predictions."""
    columns = frame["columns"]
    assert {"label", "predict_result", "predict_score", "predict_detail", "type"} <= {*columns}
    return {row[columns.index("id")]: float(row[columns.index("predict_score")]) for row in frame["rows"]}
