"""A real training of FATE's components on the board in a real browser: charts and tables of what FATE has written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.access.client_roles import OPERATE, READ, SUBMIT
from fate_flow.settings.people import add_client
from tests.kit.fate.jobs import AT_GUEST, Fate
from tests.kit.fate.rows import BANK, COMMON
from tests.kit.servers.party_servers import GUEST, HOST
from tests.kit.web.chromium import Chromium, chromium

pytestmark = pytest.mark.timeout(900)

SHOTS = os.environ.get("FATE_FLOW_TEST_SCREENSHOTS")
"""A folder that gets a picture of each view, for people to look at."""
TREES = 3
TRAINING = f"""
version: 1
name: trees that people look at
initiator: guest {GUEST}
parties: {{guest: [{GUEST}], host: [{HOST}]}}
resources: {{cores: 2, parallelism: 2}}
tasks:
  read:
    component: Reader
    outputs: {{data: [rows]}}
    at:
      guest: {{parameters: {{table: {{namespace: trial, name: bank}}}}}}
      host: {{parameters: {{table: {{namespace: trial, name: telecom}}}}}}
  match: {{component: fate.psi, inputs: {{input_data: read.rows}}}}
  train:
    component: fate.hetero_secureboost
    stage: train
    inputs: {{train_data: match.output_data}}
    parameters: {{num_trees: {TREES}, max_depth: 2, learning_rate: 0.3, max_bin: 16}}
  evaluate:
    component: fate.evaluation
    inputs: {{input_datas: [train.train_output_data]}}
    parameters:
      metrics:
        [auc, ks, lift, gain, biclass_precision_table, biclass_recall_table, biclass_accuracy_table, fscore_table,
        confusion_matrix]
    at: {{host: {{run: false}}}}
"""
# Of each block: its title, its lines and boxes, and the cells of its table.
BLOCKS = """
return [...document.querySelectorAll("section.metric")].map((one) => ({
  title: one.querySelector("h2").textContent, lines: one.querySelectorAll("svg.chart > path[class^=line]").length,
  boxes: one.querySelectorAll("svg.chart rect").length,
  rows: [...one.querySelectorAll(".wide tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent))}));
"""
OF_EVALUATION = {
    "ks_table: ROC": 1, "ks_table: K-S": 2, "lift: lift": 2, "gain: gain": 2, "biclass_precision_table: precision": 1,
    "biclass_recall_table: recall": 1, "biclass_accuracy_table: accuracy": 1, "fscore_table: F score": 1,
    "precision and recall": 1,
}  # fmt: skip
"""Charts with the number of their lines."""


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Chromium]:
    with chromium(tmp_path) as found:
        yield found


def test_a_training_is_seen_as_curves_tables_and_trees(by_columns: Fate, window: Chromium) -> None:
    guest, run = by_columns.parties.guest, by_columns.run(TRAINING)
    key = add_client(guest.home, "viewer", READ | SUBMIT | OPERATE, 1)
    job = f"{guest.url}/board/jobs/{run.job_id}"
    window.go(job)
    for css, text in (("#app_key", key.app_key), ("#secret", key.secret_key)):
        window.type(css, text)
    window.click("#sign-in button")
    window.wait_for_text("trees that people look at")

    [loss] = look(window, f"{job}/tasks/train/metrics", "sbt_loss", "fate_loss")
    losses = [value for _, value in run.metrics(AT_GUEST, "train")["sbt_loss"]]
    assert losses == sorted(losses, reverse=True), "it learns"
    assert (loss["title"], loss["lines"]) == ("sbt_loss", 1)
    assert [float(cells[-1]) for cells in loss["rows"]] == pytest.approx(losses, rel=1e-5)
    assert len(losses) == TREES

    summary, *charts = look(window, f"{job}/tasks/evaluate/metrics", "ROC", "fate_evaluation")
    measured = {name: float(value) for name, value in summary["rows"]}
    assert 0.8 < measured["auc"] <= 1
    assert 0.4 < measured["ks"] <= 1
    lines = {one["title"].removeprefix("evaluation: train: train_set: "): one["lines"] for one in charts}
    assert OF_EVALUATION.items() <= lines.items()
    assert all(len(one["rows"]) > 20 for one in charts), "each chart has its table"
    text = window.text("main")
    assert "The largest distance is" in text
    cells = window.run("return [...document.querySelectorAll('.matrix tbody td')].map((one) => one.textContent)")
    assert sum(map(int, cells)) == len(COMMON), "the confusion matrix has all rows that the parties have in common"

    importance, *trees = look(window, f"{job}/tasks/train/model?output=output_model", "Tree 1", "fate_model")
    assert importance["title"] == "Feature importance"
    assert importance["boxes"] == len(importance["rows"]) > 0
    assert [one["title"] for one in trees] == [f"Tree {number} of {TREES}" for number in range(1, TREES + 1)]
    assert all(one["boxes"] == len(one["rows"]) >= 3 for one in trees)
    splits = [cells[1].partition(" ≤ ") for one in trees for cells in one["rows"] if cells[3] != "leaf"]
    assert {name for name, *_ in splits} <= {*BANK, "its column"}, "columns of the host are known there alone"
    values = [float(value) for name, _, value in splits if name in BANK]
    assert values, "FATE stores the value, not the number of the bin"

    look(window, f"{job}/tasks/train/usage", "Reserved and used", "fate_usage")
    [used] = window.run("return [...document.querySelectorAll('section > .wide tbody tr')].map((row) => [...row.cells]"
                        ".map((cell) => cell.textContent))")  # fmt: skip
    _worker, _process, seconds, processor_seconds, reserved, *_cores, _memory, peak = used
    assert reserved == "2"
    assert float(processor_seconds) > 1, "FATE computes in a child of its warm process, not below the worker"
    assert float(seconds) > 1
    assert float(peak) > 100


def look(window: Chromium, url: str, text: str, shot: str) -> list[dict[str, Any]]:
    """Look at a page, wide and on a phone, without an error or a barrier; what its blocks are."""
    window.resize(1280, 1000)
    window.go(url)
    window.wait_for_text(text)
    if SHOTS:
        window.resize(1280, min(4_000, window.run("return document.documentElement.scrollHeight")))
        window.screenshot(Path(SHOTS) / f"{shot}.png")
    assert window.console() == []
    assert window.barriers() == []
    window.resize(360, 740)
    assert window.run("return document.documentElement.scrollWidth") <= 360
    return list(window.run(BLOCKS))
