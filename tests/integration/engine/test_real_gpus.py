"""GPUs of two real parties, by a made-up inventory: real workers print the devices that they see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.servers.lending import a_root
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, PartyServer, running_cluster
from tests.kit.servers.programs import PYTHON, command, printed, python
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(600)

BOTH = {"guest": [GUEST], "host": [HOST]}
SHOWS = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
WAITS = SHOWS + "\nimport sys, time\nsys.stdout.flush()\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
FREE = "SELECT f_engine_name AS name, f_remaining_gpus AS gpus, f_remaining_cores AS cores FROM t_engine_registry"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The guest has all on one engine, the host its GPUs on a second one, which it calls otherwise than jobs do."""
    common: dict[str, Any] = {"commands": {"enabled": True, "allow": [PYTHON]}, "fate_on_standalone": None}
    overlays = {
        GUEST: {
            **common, "engines": {"local": {"cores": 8, "gpus": 4, "labels": ["ssd"]}},
            "queues": {"long": {"engine": "local"}},
        },
        HOST: {
            **common, "engines": {
                "local": {"cores": 8},
                "big": {"kind": "local", "cores": 4, "gpus": [7, "GPU-a"], "labels": ["ssd"], "parties": [GUEST]},
            },
            "queues": {"long": {"engine": "big", "parties": [GUEST]}},
        },
    }  # fmt: skip
    root = a_root(tmp_path_factory)
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 50, overlays=overlays) as cluster:
        yield cluster


def free(party: PartyServer) -> dict[str, tuple[int, int]]:
    return {row["name"]: (row["cores"], row["gpus"]) for row in party.rows(FREE)}


def test_each_worker_sees_devices_of_its_own_and_none_without_gpus(servers: Cluster) -> None:
    job = {"task_cores": 1, "task_gpus": 2}
    job_id = servers.run(command(BOTH, command=python(SHOWS), replicas=2, job=job))
    assert [printed(servers.guest, job_id, worker=one) for one in (0, 1)] == ["0\n", "1\n"]
    assert [printed(servers.host, job_id, worker=one) for one in (0, 1)] == ["7\n", "GPU-a\n"]
    job_id = servers.run(command(BOTH, command=python(SHOWS), job={"task_cores": 1, "queue": "long"}))
    assert [printed(one, job_id) for one in (servers.guest, servers.host)] == ["\n", "\n"]
    assert servers.host.rows("SELECT f_asked_engine AS name FROM t_job WHERE f_job_id = ?", job_id) == [{"name": "big"}]
    own = {"cores": 2, "gpus": 1, "labels": ["ssd"]}
    job_id = servers.run(command(BOTH, command=python(SHOWS), job={"task_cores": 4, "task_conf": {"train": own}}))
    assert [printed(one, job_id) for one in (servers.guest, servers.host)] == ["0\n", "7\n"], "of the task itself"
    asked = "SELECT f_asked_cores AS cores, f_asked_gpus AS gpus FROM t_job WHERE f_job_id = ?"
    assert servers.host.rows(asked, job_id) == [{"cores": 2, "gpus": 1}]
    said = servers.guest.submit(command(BOTH, command=python(SHOWS), job={"queue": "short"}))["retmsg"]
    assert said.endswith("guest 9999 has no queue 'short'; known here: long (queues in the configuration)"), said
    assert (free(servers.guest), free(servers.host)) == ({"STANDALONE": (8, 4)}, {"STANDALONE": (8, 0), "big": (4, 2)})


@pytest.mark.heavy
def test_a_device_comes_back_once_though_the_server_is_killed_and_the_other_job_is_told_what_is_missing(
    servers: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ends, host = tmp_path_factory.mktemp("ends") / "now", servers.host
    job = {"task_cores": 1, "task_gpus": 2}
    waits = [*python(WAITS), str(ends)]
    first = servers.submit(command(BOTH, command=waits, job=job))
    log = {"job_id": first, "component_name": "train"}
    eventually(
        lambda: (host.post("task/log", log).get("data") or {}).get("text") == "7,GPU-a\n",
        "the first job runs at the host",
    )
    second = servers.submit(command(BOTH, command=python(SHOWS), job={**job, "task_gpus": 1}))
    why = "host 10000 has 0 of 2 GPUs free, 1 asked"
    eventually(lambda: why in servers.guest.flow("job", "explain", "-j", second).out, "the second job waits")
    servers.kill(HOST)
    servers.start(HOST)
    [running] = host.rows("SELECT f_devices AS devices FROM t_worker WHERE f_status = 'running'")
    assert (free(host)["big"], json.loads(running["devices"])) == ((3, 0), ["7", "GPU-a"])
    shown = host.flow("resource", "query", "--table").out
    assert "big: 3 of 4 cores and 0 of 2 GPUs are free" in shown
    ends.touch()
    for job_id in (first, second):
        servers.wait(job_id, "success")
    assert printed(host, second) == "7\n"
    assert (free(servers.guest), free(host)) == ({"STANDALONE": (8, 4)}, {"STANDALONE": (8, 0), "big": (4, 2)})
