"""A task with something of everything for its pages: two attempts, workers, logs, metrics of each form, and results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fate_flow.core.metrics.form import read_metric
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.engines.local.usage import USAGE
from fate_flow.store.values import Metric
from tests.kit.api.client_world import GUEST, HOST, START, World
from tests.kit.api.models import add_model

NAME = "toy_0"
LOG = "".join(f"2026-11-27 03:30:{line % 60:02d} step {line} loss {1 / (line + 1):.4f}\n" for line in range(6_000))


def add_filled_task(world: World) -> str:
    """A job whose task failed at the host in its first attempt and succeeded in its second; its id."""
    job_id = world.add_job(status=JobStatus.SUCCESS, f_name="credit model", f_start_time=START)
    for party in (GUEST, HOST):
        world.add_task(
            job_id, party=party, f_status="failed", f_party_status="failed", f_start_time=START,
            f_end_time=START + 9_000, f_reason="worker_error", f_message=f"out of memory at {HOST}",
            f_caused_by=str(HOST), f_federated_caused_by=str(HOST), f_federated_reason="worker_error",
            f_federated_message=f"out of memory at {HOST}",
        )  # fmt: skip
        world.add_task(
            job_id, party=party, version=1, f_status="success", f_party_status="success",
            f_start_time=START + 10_000, f_end_time=START + 60_000, f_reason="done", f_federated_reason="done",
        )  # fmt: skip
    for version, slot, end in ((0, 0, "worker_error"), (0, 1, "stopped"), (1, 0, "done"), (1, COLLECTOR, "done")):
        add_worker(world, job_id, version, slot, end)
    key = TaskKey(job_id, NAME, 1, GUEST)
    table = world.add_table(f"output_{job_id}", "made", [(f"c{row}", str(row), "<b>") for row in range(120)], job_id)
    with world.store.transaction() as tx:
        tx.save_metrics([metric_of(key, one) for one in METRICS], START)
        tx.save_metrics([metric_of(TaskKey(job_id, NAME, 0, GUEST), loss("loss", 3, 2.0))], START)
        tx.save_summary(key, {"files": {"report": {"size": 2, "sha256": "ab" * 32}}}, START)
    add_model(world, job_id, 1, NAME, MODEL, reference=ModelReference("credit", 3, NAME, "model"))
    world.add_output(job_id, table)
    world.write("t_tracking_output_data_info", {"f_job_id": job_id}, f_task_version=1)
    world.add_log(job_id, f"guest/9999/{NAME}/INFO.log", "[INFO] it has begun\n")
    return job_id


USED = {"seconds": 75.5, "processor_seconds": 61.25, "largest_process_mb": 140.0}
"""The end of the usage of a worker that has ended."""


def add_worker(world: World, job_id: str, version: int, slot: int, end: str = "") -> Path:
    """A worker, with what it has printed; the file of its stdout."""
    folder = world.home / "workers" / job_id / f"{version}-{slot}"
    (folder / "outputs").mkdir(parents=True)
    (folder / "outputs" / "report").write_text("{}", encoding="utf-8")
    files = {stream: str(folder / stream) for stream in ("stdout", "stderr")}
    (folder / "launch.json").write_text(json.dumps(files), encoding="utf-8")
    (folder / "stdout").write_text(LOG, encoding="utf-8")
    (folder / "stderr").write_text("<script>alert(1)</script>\n", encoding="utf-8")
    if end:
        lines = [*([10 * at, 8 * at + slot * at % 3, 150 + at * (9 - at) + 40 * slot] for at in range(1, 8)), USED]
        (folder / USAGE).write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    key = TaskKey(job_id, NAME, version, GUEST)
    worker = Worker(f"{job_id}-{version}-{slot}", key, WorkerStatus.RUNNING, "local", str(folder), START, slot=slot,
                    start_time=START)  # fmt: skip
    with world.store.transaction() as tx:
        tx.add_worker(worker)
    if end:
        world.write(
            "t_worker", {"f_worker_id": worker.worker_id}, f_status="exited", f_end_time=START + 5_000, f_reason=end,
            f_caused_by=str(GUEST), f_exit_status="exit code 0" if end == "done" else "signal 9",
        )  # fmt: skip
    return folder / "stdout"


def metric_of(key: TaskKey, said: Mapping[str, Any]) -> Metric:
    """A metric as a worker reports it, in either form."""
    kept = read_metric(said)
    return Metric(key, kept["namespace"], kept["name"], tuple(map(tuple, kept["data"])), kept["meta"])


def loss(name: str, count: int, start: float, group: str = "train") -> dict[str, Any]:
    points = [{"metric": [start * math.exp(-step / 8)], "step": step, "timestamp": 1.0} for step in range(count)]
    return {"name": name, "type": "loss", "groups": [{"name": group}], "step_axis": "iterations", "data": points}


def _share(place: int) -> float:
    return round(place / 20, 2)


_CUTS = [_share(place) for place in range(21)]
_THRESHOLDS = [round(1 - cut, 2) for cut in _CUTS]
_TPR = [round(math.sqrt(cut), 4) for cut in _CUTS]
_FPR = [round(cut**2, 4) for cut in _CUTS]
KS = {"tpr": _TPR, "fpr": _FPR, "threshold": _THRESHOLDS, "cuts": _CUTS}
_CONFUSION = {
    "tp": [round(50 * one) for one in _TPR], "fp": [round(50 * one) for one in _FPR],
    "fn": [50 - round(50 * one) for one in _TPR], "tn": [50 - round(50 * one) for one in _FPR],
    "threshold": _THRESHOLDS, "cuts": _CUTS,
}  # fmt: skip
EVALUATION = [
    {"metric": "auc", "val": 0.8333}, [{"metric": "ks", "val": 0.4725}, {"metric": "ks_table", "val": KS}],
    {"metric": "confusion_matrix", "val": _CONFUSION},
    {"metric": "lift", "val": {"liftx": [[1 - c, c] for c in _CUTS], "lifty": [[1.0, 2 - c] for c in _CUTS],
                               "threshold": _THRESHOLDS}},
    {"metric": "gain", "val": {"gainx": [[1 - c, c] for c in _CUTS], "gainy": [[1 - c, t] for c, t in zip(
        _CUTS, _TPR, strict=True)], "threshold": _THRESHOLDS}},
    {"metric": "biclass_precision_table", "val": {"p": [1 - c / 2 for c in _CUTS], "threshold": _THRESHOLDS,
                                                  "cuts": _CUTS}},
    {"metric": "biclass_recall_table", "val": {"r": _TPR, "threshold": _THRESHOLDS, "cuts": _CUTS}},
    {"metric": "biclass_accuracy_table", "val": {"accuracy": [0.5 + c * (1 - c) for c in _CUTS],
                                                 "threshold": _THRESHOLDS, "cuts": _CUTS}},
]  # fmt: skip
"""What FATE 2's evaluation says of one set of rows."""

CORRELATION = {"age": {"age": 1.0, "income": -0.42}, "income": {"age": -0.42, "income": 1.0}}

METRICS: list[dict[str, Any]] = [
    loss("loss", 40, 0.7), loss("loss", 40, 0.9, "validate"),
    {"name": "evaluation", "type": "evaluation", "groups": [], "data": {"train": {"train_set": EVALUATION}}},
    {"name": "feature_importance", "groups": [], "data": {f"x{place}": 5.0 - place for place in range(6)}},
    {"name": "metrics_summary", "groups": [], "data": {
        "age": {"mean": 41.5, "std": 12.25, "min": 18, "max": 90}, "income": {"mean": 3e4, "std": 9e3, "min": 0},
    }},
    {"name": "correlation", "groups": [], "data": CORRELATION},
    {"namespace": "train", "name": "lr_0_ks_tpr", "data": [[cut, tpr] for cut, tpr in zip(_CUTS, _TPR, strict=True)],
     "meta": {"metric_type": "KS_EVALUATION", "thresholds": _THRESHOLDS}},
    {"namespace": "train", "name": "lr_0_ks_fpr", "data": [[cut, fpr] for cut, fpr in zip(_CUTS, _FPR, strict=True)],
     "meta": {"metric_type": "KS_EVALUATION", "thresholds": _THRESHOLDS}},
    {"namespace": "train", "name": "lr_0_roc", "data": [[fpr, tpr] for fpr, tpr in zip(_FPR, _TPR, strict=True)],
     "meta": {"metric_type": "ROC_EVALUATION"}},
    {"namespace": "train", "name": "auc", "data": [["auc", 0.8333]], "meta": {"metric_type": "EVALUATION_SUMMARY"}},
]  # fmt: skip
"""As FATE 2's components, those of FATE 1, and our trackers report them."""


def _node(nid: int, left: int, right: int, fid: int | None = None) -> dict[str, Any]:
    return {"nid": nid, "l": left, "r": right, "is_leaf": left < 0, "weight": nid / 10, "fid": fid, "bid": 3,
            "sample_num": 100 - nid, "sitename": "guest_9999"}  # fmt: skip


MODEL: dict[str, Any] = {
    "trees": [{"nodes": [_node(0, 1, 2, 0), _node(1, 3, 4, 1), *(_node(nid, -1, -1) for nid in (2, 3, 4))]}] * 2,
    "fid_name_mapping": {"0": "age", "1": "income"},
    "feature_importance": {"0": {"gain": 4.5, "split": 2}, "1": {"gain": 7.25, "split": 1}},
}  # fmt: skip
"""As FATE 2's SecureBoost stores it."""
