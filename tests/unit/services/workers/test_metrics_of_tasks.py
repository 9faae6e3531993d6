"""What becomes of metrics when their task has succeeded: those of the result file replace what was reported before."""

from __future__ import annotations

from typing import Any

from fate_flow.core.metrics.form import read_metric
from fate_flow.core.model.artifact import METRIC, Artifact
from fate_flow.core.model.job import CommandKind, TaskKey
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Rules
from fate_flow.store.values import Metric
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import RUN, a_host, task_command
from tests.kit.services.sights import with_outputs
from tests.kit.values import HOST, JOB_ID, NOW

KEY = TaskKey(JOB_ID, "a", 0, HOST)


def loss(*values: float) -> dict[str, Any]:
    data = [{"metric": value, "step": step, "timestamp": 1.5} for step, value in enumerate(values)]
    return read_metric({"name": "loss", "type": "loss", "step_axis": "iterations", "data": data})


def report(host: HandServer, *metrics: dict[str, Any]) -> None:
    """As the worker does while it runs."""
    with host.store.transaction() as tx:
        for one in metrics:
            points = tuple(map(tuple, one["data"]))
            tx.save_metrics([Metric(KEY, one["namespace"], one["name"], points, one["meta"])], NOW)


def succeeds(host: HandServer, *metrics: dict[str, Any], left_out: tuple[str, ...] = (), **summary: Any) -> None:
    listed = Artifact(METRIC, "file:///w/metric.json", {"metrics": list(metrics), "left_out": list(left_out)}, "metric")
    host.engine.sights[worker_of(host)] = with_outputs(listed, **summary)
    host.watch()
    host.handle(task_command(CommandKind.TASK_STATUS, argument="success"))


def kept(host: HandServer) -> list[tuple[str, list[Any]]]:
    with host.store.reading() as tx:
        return [(one.name, [point[1] for point in one.data]) for one in tx.metrics(JOB_ID, "a", HOST)]


def texts(host: HandServer) -> list[object]:
    return [one["text"] for one in host.record.seen(Event.JOB_WARNING)]


def summary_of(host: HandServer) -> Any:
    with host.store.reading() as tx:
        return tx.summary(JOB_ID, "a", HOST)


def with_worker(**rules: Any) -> HandServer:
    return a_host(*RUN, task_command(CommandKind.TASK_START), rules=Rules(**rules))


AUC = read_metric({"name": "evaluation", "data": {"auc": 0.9}})


def test_the_result_file_replaces_what_was_reported_under_the_same_name() -> None:
    host = with_worker()
    report(host, loss(0.7), loss(0.6), AUC)
    assert [name for name, _ in kept(host)] == ["loss", "loss", "evaluation"]
    succeeds(host, loss(0.7, 0.6, 0.5))
    assert kept(host) == [("evaluation", [0.9]), ("loss", [0.7, 0.6, 0.5])]


def test_the_summary_comes_from_the_metrics_unless_the_component_gives_one() -> None:
    host = with_worker()
    report(host, AUC)
    succeeds(host, loss(0.7, 0.6))
    assert summary_of(host) == {"evaluation": {"auc": 0.9}, "loss": {"last": 0.6, "iterations": 1, "count": 2}}
    host = with_worker()
    succeeds(host, loss(0.7), rows=3)
    assert summary_of(host) == {"rows": 3}


def test_what_is_left_out_of_a_file_is_named_in_the_log_of_the_job() -> None:
    host = with_worker()
    succeeds(host, AUC, left_out=("name: 3 is not a text", "metric.json is not JSON"))
    assert kept(host) == [("evaluation", [0.9])]
    assert texts(host) == [
        "metrics of a are left out: name: 3 is not a text; metric.json is not JSON"
    ]


def test_metrics_beyond_the_limit_of_a_job_are_left_out() -> None:
    host = with_worker(metrics_max_bytes=800)
    succeeds(host, AUC, loss(*[0.123456] * 30))
    assert [name for name, _ in kept(host)] == ["evaluation"]
    [text] = texts(host)
    assert text == (
        f"metrics of a are left out: loss: the metrics of job {JOB_ID} would take more than 800 bytes here "
        "(limits.metrics_max_bytes)"
    )
