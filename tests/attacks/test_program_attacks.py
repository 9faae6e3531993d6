"""Programs of a party that may run programs here: they reach nothing of other jobs, and nothing of them outlives a job.

They run as the server's user, so they can do what that user can; the server does nothing more for them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.tables.table_uri import format_uri, parse_uri
from tests.kit.attacks.attacked_server import HONEST, OWN, AttackedServer, new_job_id, program
from tests.kit.servers.engine_site import is_running
from tests.kit.servers.programs import ESCAPE, python
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

ASKS_ITS_SERVER = """
import json, os, sys, urllib.error, urllib.request
from urllib.parse import urlsplit
base = "http://" + urlsplit(os.environ["FATE_FLOW_EXCHANGE_URL"]).netloc + "/v1/"
head = {"Authorization": "Bearer " + os.environ["FATE_FLOW_EXCHANGE_TOKEN"], "Content-Type": "application/json"}
for path, body in json.loads(sys.argv[1]):
    try:
        text = urllib.request.urlopen(urllib.request.Request(base + path, json.dumps(body).encode(), head)).read()
    except urllib.error.HTTPError as error:
        text = b'{"retcode": %d, "retmsg": "HTTP"}' % error.code
    print(json.dumps(json.loads(text)), flush=True)
"""
"""Sends requests to its server as the worker that it is; a line of its output for each answer."""


def answers(attacked: AttackedServer, job_id: str, requests: Sequence[tuple[str, object]]) -> list[dict[str, Any]]:
    """What a program in a new job of the honest party is answered."""
    command = [*python(ASKS_ITS_SERVER), json.dumps(requests)]
    attacked.begin(HONEST, job_id, program(HONEST, {"host": [OWN]}, command=command))
    eventually(lambda: attacked.server.tasks(job_id)[0]["f_party_status"] in ("success", "failed"), "its end")
    where = {"job_id": job_id, "component_name": "toy_0", "role": "host", "party_id": OWN}
    text = str(attacked.server.ask("task/log", {**where, "stream": "stdout"})["text"])
    attacked.end(HONEST, job_id)
    found = [json.loads(line) for line in text.splitlines()]
    assert len(found) == len(requests), (text, attacked.server.ask("task/log", {**where, "stream": "stderr"}))
    return found


def test_a_worker_registers_no_file_that_is_not_its_own(attacked: AttackedServer, own_job: str) -> None:
    """Whoever could would have it removed, or read, through the table. A table that was not granted is no output."""
    data, job_id = attacked.home / "data", new_job_id()
    own = f"output_{job_id}"
    tables = attacked.server.rows("SELECT * FROM t_storage_table_meta ORDER BY f_namespace, f_name")
    uris = [
        format_uri(data, "it", "secret"), "standalone:///etc/passwd", format_uri(Path("/etc"), own, "mine"),
        f"{format_uri(data, own, 'x')}/../../it/secret", str(attacked.home / "keys" / "root.pem"), "file:///etc/passwd",
        "https://127.0.0.1:1/x", "", 5, {"path": "/etc/passwd"},
    ]  # fmt: skip
    mine = f"tracker/{job_id}/toy_0/{job_id}_toy_0/0/host/{OWN}"
    requests: list[tuple[str, object]] = [
        (f"{mine}/table_meta/create", {"namespace": namespace, "name": name, "address": {"uri": uri}, "count": 1})
        for uri in uris for namespace, name in (("it", "secret"), (own, "mine"), (f"{own}/../it", "secret"))
    ]
    secret = {"table_namespace": "it", "table_name": "secret"}
    requests += [
        (f"{mine}/output_data_info/save", {"data_name": "data", **secret}),
        (f"{mine}/table_meta/get", {"namespace": "it", "table_name": "secret"}),
    ]
    found = answers(attacked, job_id, requests)
    for (_, body), answer in zip(requests, found, strict=True):
        assert answer["retcode"] != 0, (body, answer)
    assert attacked.server.rows("SELECT * FROM t_storage_table_meta ORDER BY f_namespace, f_name") == tables
    assert attacked.server.rows(f"SELECT * FROM t_tracking_output_data_info WHERE f_job_id = '{job_id}'") == []
    assert parse_uri(format_uri(data, "it", "secret")).path.exists()


def test_a_worker_speaks_for_its_own_task_alone(attacked: AttackedServer, own_job: str, job_here: str) -> None:
    job_id, before = new_job_id(), [attacked.rows(one) for one in (own_job, job_here)]
    metric = {"metric_namespace": "a", "metric_name": "b", "metrics": [["k", 1]]}
    pickled = "gASVIAAAAAAAAACMCGJ1aWx0aW5zlIwFcHJpbnSUk5SMAWGUhZRSlC4="
    mine = f"tracker/{job_id}/toy_0/{job_id}_toy_0/0/host/{OWN}"
    requests: list[tuple[str, object]] = [
        *((f"tracker/{other}/toy_0/{other}_toy_0/0/{seat}/{what}", metric)
          for other, seat in ((own_job, f"guest/{OWN}"), (job_here, f"host/{OWN}"), (job_id, f"host/{HONEST}"))
          for what in ("metric_data/save", "table_meta/create", "summary/save")),
        *(("operation/job_config/get", {"job_id": other, "role": "host", "party_id": OWN})
          for other in (own_job, job_here)),
        (f"{mine}/metric_data/save", {**metric, "metrics": pickled}),
        (f"{mine}/metric_meta/save", {**metric, "metric_meta": pickled}),
        (f"{mine}/summary/save", {"summary": pickled}), (f"{mine}/table_meta/create", pickled),
        ("exchange/push?role=guest&party_id=10001&topic=a&seq=0&last=1", {}),
        ("job/stop", {"job_id": own_job}), ("key/query", {"party_id": HONEST}), ("party/list", {}),
    ]  # fmt: skip
    for (path, _), answer in zip(requests, answers(attacked, job_id, requests), strict=True):
        assert answer["retcode"] != 0, (path, answer)
    assert [attacked.rows(one) for one in (own_job, job_here)] == before


@pytest.mark.parametrize("environment", ["kept", "cleared"])
def test_nothing_of_a_program_outlives_its_job(attacked: AttackedServer, tmp_path: Path, environment: str) -> None:
    """It forks twice, leaves its session, and kills its runner."""
    job_id, file = new_job_id(), tmp_path / "escaped"
    command = [*python(ESCAPE), environment, str(file), "end"]
    attacked.begin(HONEST, job_id, program(HONEST, {"host": [OWN]}, command=command))
    pid = int(eventually(lambda: file.read_text() if file.exists() else "", "the process that leaves"))
    eventually(lambda: not is_running(pid), "its end")
    eventually(lambda: attacked.server.tasks(job_id)[0]["f_party_status"] == "failed", "the end of the task")
    attacked.end(HONEST, job_id)
