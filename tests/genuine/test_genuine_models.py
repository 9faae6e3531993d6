"""Models with the genuine client: trained at two parties, deployed, predicted with, exported, imported and tagged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.genuine.genuine_client import Flow, GenuineClient
from tests.genuine.locked import OPEN_CONF
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, csv_text, running_cluster

pytestmark = pytest.mark.timeout(900)

DSL = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "fit_0": {
            "module": "Fit", "input": {"data": {"train_data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    },
}  # fmt: skip
SHOP = {"table": {"namespace": "trial", "name": "shop"}}
CONF = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": int(GUEST)},
    "role": {"guest": [int(GUEST)], "host": [int(HOST)]},
    "job_parameters": {"common": {"task_conf": {"fit_0": {"stage": "train"}}}},
    "component_parameters": {"common": {"reader_0": SHOP}},
}  # fmt: skip
FATE_ID = f"guest-{GUEST}#host-{HOST}#model"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both parties have a provider with a component that trains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FATE_FLOW_TINY_PROVIDER", "1")
        root, overlays = tmp_path_factory.mktemp("genuine models"), dict.fromkeys((GUEST, HOST), OPEN_CONF)
        with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 100, overlays=overlays) as cluster:
            for party in cluster.parties.values():
                rows = {"a": [1], "b": [2], "c": [int(party.party_id)]}
                party.has_table("shop", csv_text(["id", "x"], rows), namespace="trial")
            yield cluster
            cluster.check_idle()


@pytest.fixture(scope="module")
def client(cluster: Cluster, genuine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> GenuineClient:
    client = GenuineClient(genuine_python, tmp_path_factory.mktemp("genuine client of models"))
    assert client.init(cluster.guest.url).document["retcode"] == 0
    return client


@pytest.fixture(scope="module")
def flow(client: GenuineClient) -> Iterator[Flow]:
    with client.forked_flow() as run:
        yield run


@pytest.fixture(scope="module")
def trained(cluster: Cluster, flow: Flow, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("train")
    conf, dsl = written(folder, "conf.json", CONF), written(folder, "dsl.json", DSL)
    said = flow("job", "submit", "-c", conf, "-d", dsl).document
    assert said["retcode"] == 0, said
    assert said["data"]["model_info"] == {"model_id": FATE_ID, "model_version": said["jobId"]}
    cluster.wait(said["jobId"], "success")
    return str(said["jobId"])


def written(folder: Path, name: str, content: object) -> str:
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def good(flow: Flow, *text: str) -> Any:
    said = flow(*text).document
    assert said["retcode"] == 0, said
    return said


def test_a_trained_model_is_deployed_and_predicts(
    cluster: Cluster, flow: Flow, trained: str, tmp_path: Path
) -> None:
    [row] = good(flow, "model", "get-model-info", "--model-version", trained)["data"]
    assert (row["f_model_id"], row["f_role"], row["f_party_id"]) == (FATE_ID, "guest", GUEST)
    named = ("--model-id", FATE_ID, "--model-version")
    wrong = flow("model", "deploy", *named, trained, "--cpn-list", "nobody").document
    assert (wrong["retcode"], "'nobody' is not one of the components" in wrong["retmsg"]) == (101, True)
    made = good(flow, "model", "deploy", *named, trained, "--cpn-list", "fit_0")["data"]
    assert (made["model_id"], made["model_version"] != trained) == (FATE_ID, True)
    version = made["model_version"]
    detailed = good(flow, "model", "get-model-info", "--model-version", version, "--detail")["data"]
    assert detailed[0]["f_parent_info"]["parent_model_version"] == trained

    assert good(flow, "model", "get-predict-dsl", *named, version, "-o", str(tmp_path))["retmsg"]
    [path] = tmp_path.glob("predict_dsl_*.json")
    dsl = json.loads(path.read_text(encoding="utf-8"))
    assert dsl["components"]["fit_0"]["input"]["model"] == ["pipeline.fit_0.model"]
    good(flow, "model", "get-predict-conf", *named, version, "-o", str(tmp_path))
    [path] = tmp_path.glob("predict_conf_*.json")
    conf = json.loads(path.read_text(encoding="utf-8"))
    for place in conf["component_parameters"]["role"].values():
        place["0"]["reader_0"] = SHOP
    refused = flow("model", "get-predict-conf", *named, trained, "-o", str(tmp_path)).document
    assert (refused["retcode"], "not deployed" in refused["retmsg"]) == (210, True)

    said = good(flow, "job", "submit", "-c", written(tmp_path, "conf.json", conf), "-d", str(path))
    job_id = said["jobId"]
    cluster.wait(job_id, "success")
    for party, role in ((cluster.guest, "guest"), (cluster.host, "host")):
        summary = party.ask("tracking/component/summary/download", {
            "job_id": job_id, "role": role, "party_id": party.party_id, "component_name": "fit_0"})
        assert summary["stage"] == "predict"
        assert summary["inputs"]["input_model"]["metadata"]["trained_by"].startswith(f"{trained}_fit_0")
    # A party that has lost its part refuses, and is named.
    cluster.host.ask("model/delete", {"model_id": trained})
    lost = flow("job", "submit", "-c", written(tmp_path, "conf.json", conf), "-d", str(path)).document
    assert f"host {HOST} has no part of fit_0.model of model {trained} version 0" in lost["retmsg"]


def test_a_pipeline_is_deployed_and_predicts(cluster: Cluster, client: GenuineClient) -> None:
    with client.forked_pipeline() as step:
        done = step("train_and_predict", GUEST, HOST, "shop")
    assert done.code == 0, done
    jobs = json.loads(done.out.splitlines()[-1])
    for party, role in ((cluster.guest, "guest"), (cluster.host, "host")):
        summary = party.ask("tracking/component/summary/download", {
            "job_id": jobs["predicted"], "role": role, "party_id": party.party_id, "component_name": "fit_0"})
        assert summary["stage"] == "predict"
        assert summary["inputs"]["input_model"]["metadata"]["trained_by"].startswith(f"{jobs['trained']}_fit_0")


@pytest.mark.parametrize("group", ["component", "tracking"])
def test_the_model_of_a_component_is_shown(cluster: Cluster, flow: Flow, trained: str, group: str) -> None:
    named = ("output-model", "-j", trained, "-r", "guest", "-p", GUEST, "-cpn")
    found = good(flow, group, *named, "fit_0")
    [part] = cluster.guest.ask("model/show", {"model_id": trained})["models"]
    assert found["data"] == {"model": part["content"]}
    assert (found["meta"]["model"]["sha256"], found["meta"]["model"]["module_name"]) == (part["sha256"], "Fit")
    assert good(flow, group, *named, "reader_0") == {"retcode": 0, "retmsg": "no data", "data": {}, "meta": {}}
    [row] = good(flow, "task", "query", "-j", trained, "-r", "guest", "-cpn", "reader_0")["data"]
    assert row["f_component_parameters"]["ComponentParam"]["table"] == SHOP["table"]


def test_a_model_is_exported_and_imported(cluster: Cluster, flow: Flow, trained: str, tmp_path: Path) -> None:
    seat = {"model_id": FATE_ID, "model_version": trained, "role": "guest", "party_id": int(GUEST)}
    conf = written(tmp_path, "export.json", {**seat, "output_path": str(tmp_path)})
    made = good(flow, "model", "export", "-c", conf)
    assert made["file"] == str(tmp_path / f"{trained}_0_guest_{GUEST}.zip")
    missing = written(tmp_path, "missing.json", {**seat, "model_version": "7", "output_path": str(tmp_path)})
    assert flow("model", "export", "-c", missing).document["retcode"] == 404
    back = written(tmp_path, "import.json", {**seat, "file": made["file"]})
    assert "never overwritten" in flow("model", "import", "-c", back).document["retmsg"]
    cluster.guest.ask("model/delete", {"model_id": trained})
    assert good(flow, "model", "import", "-c", back)["data"]["model_version"] == "0"
    assert good(flow, "model", "get-model-info", "--model-version", trained)["data"]
    # Our own command prints the same.
    own = cluster.guest.flow("model", "export", "-c", conf).document
    assert own == made


def test_tags(flow: Flow, trained: str) -> None:
    assert "created successfully" in good(flow, "tag", "create", "-t", "good", "-d", "may be used")["retmsg"]
    assert flow("tag", "create", "-t", "good").document["retcode"] == 100
    good(flow, "model", "tag-model", "-j", trained, "-t", "good")
    assert [one["name"] for one in good(flow, "model", "tag-list", "-j", trained)["data"]["tags"]] == ["good"]
    found = good(flow, "tag", "query", "-t", "good", "--with-model")["data"]
    assert (found["tags"][0]["description"], found["models"]) == ("may be used", [trained])
    good(flow, "tag", "update", "-t", "good", "--new-tag-name", "best")
    assert good(flow, "tag", "list", "-l", "5")["data"]["count"] == 1
    good(flow, "model", "tag-model", "-j", trained, "-t", "best", "--remove")
    assert flow("model", "tag-model", "-j", trained, "-t", "best", "--remove").document["retcode"] == 101
    good(flow, "tag", "delete", "-t", "best")
    assert flow("tag", "query", "-t", "best").document["retcode"] == 101
