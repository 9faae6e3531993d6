"""The alerts, the dashboard and the documents name metrics that exist, and promtool accepts scrapes and rules."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from prometheus_client.core import Metric

from fate_flow.api.monitoring.families import ScrapeCollector
from fate_flow.api.monitoring.routes import scrape_of
from fate_flow.core.metrics.measures import MEASURES
from fate_flow.records.measures.kept_measures import KeptMeasures
from tests.kit.api.client_world import World, make_world
from tests.kit.api.recorded_world import add_exports

FOLDER = Path(__file__).parents[4] / "deploy" / "monitoring"
GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "monitoring.md"
PROMTOOL = "FATE_FLOW_TEST_PROMTOOL"
NAMES = re.compile(r"\bfate_flow_[a-z_]+\b")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A server that has counted everything once."""
    made = make_world(tmp_path)
    measures = KeptMeasures(made.services.settings.measures_dir)
    for one in MEASURES:
        labels = ["10000" if label == "peer" else "some" for label in one.labels]
        if one.buckets:
            measures.observe(one, *labels, value=0.2)
        else:
            measures.count(one, *labels)
    made.add_job()
    made.write_peers('{"10000": {"circuit": "open", "answered_at": 1}}')
    add_exports(made, "siem")
    return made


def families(world: World) -> list[Metric]:
    return list(ScrapeCollector(scrape_of(world.services, None)).collect())


def series(world: World) -> set[str]:
    """The names that queries may use."""
    return {one.name for family in families(world) for one in family.samples} | {one.name for one in families(world)}


def promtool(arguments: Sequence[str], stdin: str = "", cwd: Path = FOLDER) -> str:
    path = os.environ.get(PROMTOOL)
    if not path:
        pytest.skip(f"{PROMTOOL} names no promtool (bin/test gets one)")
    done = subprocess.run([path, *arguments], input=stdin, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def expressions() -> Iterator[str]:
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_each_metric_that_is_asked_for_exists(world: World) -> None:
    known = series(world)
    asked = {name for text in expressions() for name in NAMES.findall(text)}
    assert len(asked) > 20
    assert asked - known - {"fate_flow_spool_bytes"} == set()


def test_each_alert_is_explained_and_tried(world: World) -> None:
    [group] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(names) == 10
    guide = GUIDE.read_text(encoding="utf-8")
    for rule in group["rules"]:
        assert f"### {rule['alert']}\n" in guide
        assert rule["annotations"]["runbook"] == f"docs/guides/monitoring.md#{rule['alert'].lower()}"
    cases = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    fired = {one["alertname"] for case in cases for one in case["alert_rule_test"] if one.get("exp_alerts")}
    assert fired == set(names)
    [quiet] = [case for case in cases if case["name"] == "a quiet server raises nothing"]
    assert {one["alertname"] for one in quiet["alert_rule_test"] if not one.get("exp_alerts")} == set(names)


def test_the_alerts_and_guides_say_when_a_party_is_watched() -> None:
    """A party that no job binds may not be asked: then that no alert comes is no sign that it answers."""
    [group] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    about = {rule["alert"]: rule["annotations"].get("description", "") for rule in group["rules"]}
    for name in ("FateFlowPartnerSilent", "FateFlowPartnerCutOff"):
        assert "limits.idle_heartbeat_interval: 0" in about[name]
    for guide in (GUIDE, GUIDE.with_name("notifications.md"), GUIDE.with_name("board.md")):
        assert "`limits.idle_heartbeat_interval`" in guide.read_text(encoding="utf-8")


def test_each_half_of_a_rule_is_tried_alone() -> None:
    """A series that is missing in a case cannot be what fires there."""
    cases = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    of_disk = [case for case in cases if any(
        one["alertname"] == "FateFlowDiskNearlyFull" and one.get("exp_alerts") for one in case["alert_rule_test"]
    )]  # fmt: skip
    given = [{NAMES.findall(one["series"])[0] for one in case["input_series"]} for case in of_disk]
    spool = [{name for name in names if "_spool_" in name} for names in given]
    assert sorted(map(len, spool)) == [0, 2]


def test_the_guide_has_the_table_of_the_metrics(world: World) -> None:
    rows = [f"| `{name}` | {_listed(labels)}| {about} |" for name, labels, about in described(world)]
    table = GUIDE.read_text(encoding="utf-8").partition("<!-- metrics -->\n\n")[2].partition("\n\n")[0].splitlines()[2:]
    assert table == rows, "\n".join(["write into docs/guides/monitoring.md:", *rows])


def _listed(labels: Sequence[str]) -> str:
    return "".join(f"`{one}`, " for one in labels).removesuffix(", ") + " " * bool(labels)


def test_a_scrape_is_one_in_the_eyes_of_promtool(world: World) -> None:
    assert promtool(["check", "metrics"], world.client.get("/metrics").text) == ""


def test_the_rules_of_the_alerts_hold() -> None:
    promtool(["check", "rules", "alerts.yaml"])
    assert "SUCCESS" in promtool(["test", "rules", "alerts_test.yaml"])


def test_the_example_of_a_configuration_is_one(tmp_path: Path) -> None:
    text = (FOLDER / "prometheus.yaml").read_text().replace("/etc/prometheus", str(tmp_path))
    (tmp_path / "fate_flow.secret").write_text("x")
    (tmp_path / "prometheus.yaml").write_text(text)
    (tmp_path / "alerts.yaml").write_text((FOLDER / "alerts.yaml").read_text())
    promtool(["check", "config", "prometheus.yaml"], cwd=tmp_path)


def described(world: World) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Each family: the name of its series, its labels, and its meaning."""
    spool = "fate_flow_spool_bytes"
    labels = {f"{one.name}": one.labels for one in MEASURES}
    for family in families(world):
        suffix = {"counter": "_total"}.get(family.type, "")
        known = labels.get(family.name) or tuple(family.samples[0].labels)
        yield f"{family.name}{suffix}", tuple(one for one in known if one != "le"), family.documentation
        if family.name == "fate_flow_spool_limit_bytes":
            yield spool, (), "What the messages between workers take."
