"""The documents that the guides and the page on job files show are accepted as they stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.document import JobDocument, fate_v1_document
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.engines.local.group_search import SERVER_LEAF
from fate_flow.jobspec.formats import NATIVE, parse
from fate_flow.jobspec.grants_file import read_grants
from fate_flow.settings.reader import load_settings
from tests.kit.tls import Authority

DOCS = Path(__file__).parents[2] / "docs"
WRITE_A_JOB = DOCS / "guides" / "write-a-job.md"
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(path.read_text(encoding="utf-8")) if found == language]


def native(text: str) -> JobSpec:
    reading = read_yaml(text)
    return parse(JobDocument(NATIVE, reading.value), modules=CATALOGUE, defaults=JobParameters(), strict=True)


def essence(spec: JobSpec) -> dict[str, Any]:
    """What a job does, however it was written down."""
    return {name: (task.module, task.upstream, task.parties, task.parameters) for name, task in spec.tasks.items()}


@pytest.mark.parametrize("path", [WRITE_A_JOB, DOCS / "reference" / "job-file.md"], ids=lambda path: path.name)
def test_the_job_file_is_accepted(path: Path) -> None:
    assert native(blocks(path, "yaml")[0]).tasks


def test_the_rules_are_accepted_in_the_job_file_above_them() -> None:
    job, rules = blocks(WRITE_A_JOB, "yaml")
    assert native(job + rules).tasks


def test_the_two_documents_are_the_job_of_the_file() -> None:
    dsl, conf = (one for one in map(json.loads, blocks(WRITE_A_JOB, "json")) if "file" not in one)
    spec = parse(fate_v1_document(dsl, conf), modules=CATALOGUE, defaults=JobParameters(), strict=True)
    assert essence(spec) == essence(native(blocks(WRITE_A_JOB, "yaml")[0]))


def test_the_unit_begins_the_server_where_a_restart_beside_workers_can_begin_it_again() -> None:
    [unit] = blocks(DOCS / "guides" / "operate-a-server.md", "ini")
    lines = unit.splitlines()
    assert {"Delegate=yes", f"DelegateSubgroup={SERVER_LEAF}", "KillMode=process"} <= set(lines)


YAMLS = [
    (path.name, text)
    for path in (DOCS / "guides" / "operate-a-server.md", DOCS / "guides" / "connect-two-organisations.md")
    for text in blocks(path, "yaml")
]
GRANTS = [(name, text) for name, text in YAMLS if "version" in yaml.safe_load(text)]
CONFIGURATIONS = [one for one in YAMLS if one not in GRANTS]


@pytest.mark.parametrize(("name", "text"), GRANTS)
def test_a_file_of_grants_is_accepted(name: str, text: str) -> None:
    reading = read_yaml(text)
    grants, _ = read_grants(reading.value, CATALOGUE, "10000")
    assert set(grants) == set(reading.value["parties"]), name


@pytest.mark.parametrize(("name", "text"), CONFIGURATIONS)
def test_a_configuration_is_accepted(name: str, text: str, tmp_path: Path) -> None:
    """With the party id added where the guide shows a part, and with the file of an authority where it names one."""
    document = {"party_id": "9999", **yaml.safe_load(text)}
    if "home" in document:
        document["home"] = str(tmp_path)
    for route in document.get("routes", {}).values():
        if "ca" in route:
            Authority(tmp_path).file.rename(tmp_path / route["ca"])
    path = tmp_path / "service_conf.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert load_settings(path).party_id == document["party_id"], name
