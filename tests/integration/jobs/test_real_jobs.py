"""Jobs over real parties, from submit to success: rows, cores, spool, logs, and the shapes a DAG may have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.servers.home_files import paths_below
from tests.kit.servers.party_servers import (
    EVERYBODY,
    GUEST,
    HOST,
    OTHER,
    READER,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    summing,
    table_named,
    toy,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)



@pytest.fixture
def with_tables(on_sqlite: Cluster) -> Cluster:
    """Each party has a table `numbers` with columns x and y."""
    for place, party in enumerate(on_sqlite.parties.values()):
        rows = {f"id{number}": (10 ** place, 1000 * 10 ** place) for number in range(5)}
        party.has_table("numbers", csv_text(["id", "x", "y"], rows))
    return on_sqlite


# ---------------------------------------------------------------------- one task at two parties


def test_a_job_over_two_parties_succeeds_everywhere_and_leaves_nothing_held(cluster: Cluster) -> None:
    job_id = cluster.run(toy())
    cluster.check_idle()
    for party_id, role in ((GUEST, "guest"), (HOST, "host")):
        party = cluster.parties[party_id]
        row = party.job(job_id)
        assert (row["f_role"], row["f_status"], row["f_reason"], row["f_progress"]) == (role, "success", "done", 100)
        assert (row["f_cores"], row["f_resource_in_use"], row["f_claim"]) == (2, 0, "")
        assert row["f_apply_resource_time"] <= row["f_start_time"] <= row["f_end_time"]
        [task] = party.tasks(job_id)
        assert (task["f_status"], task["f_party_status"], task["f_task_version"]) == ("success", "success", 0)
        assert [path for path in party.files() if path.startswith("spool")] == []
    assert cluster.parties[OTHER].rows("SELECT * FROM t_job WHERE f_job_id = ?", job_id) == []
    seats = cluster.guest.rows("SELECT * FROM t_seat WHERE f_job_id = ?", job_id)
    assert [seat["f_status"] for seat in seats] == ["left", "left"]


def test_every_path_that_a_submit_answers_is_there(cluster: Cluster) -> None:
    said = cluster.guest.submit(toy())
    cluster.wait(said["jobId"], "success")
    paths = {key: Path(value) for key, value in said["data"].items() if key.endswith(("_path", "_directory"))}
    assert {"train_runtime_conf_path", "pipeline_dsl_path", "dsl_path", "logs_directory"} <= paths.keys()
    assert [key for key, path in paths.items() if not path.exists()] == []


def test_what_a_server_and_its_workers_write_is_for_their_user_alone(on_sqlite: Cluster) -> None:
    on_sqlite.run(toy())
    on_sqlite.check_idle()
    home = on_sqlite.guest.home
    inside = [home / name for name in ("run", "jobs", "data", "spool", "uploads", "logs", "fate_flow.sqlite")]
    for folder in ("jobs", "logs"):
        inside += paths_below(home / folder)
    assert [str(path) for path in inside if mode_of(path) & 0o077] == []


def mode_of(path: Path) -> int:
    """0 for a file that is not there: one of the server may go while it is looked at."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def test_a_job_leaves_the_log_files_that_operators_know(cluster: Cluster) -> None:
    job_id = cluster.run(toy())
    for party_id, role in ((GUEST, "guest"), (HOST, "host")):
        logs = cluster.parties[party_id].home / "logs"
        job, place = logs / job_id, logs / job_id / role / party_id
        found = {str(path.relative_to(job)) for path in paths_below(job) if path.suffix == ".log"}
        assert {"fate_flow_schedule.log", "fate_flow_sql.log"} <= found
        assert {f"{role}/{party_id}/INFO.log", f"{role}/{party_id}/toy_0/INFO.log"} <= found
        assert any(path.name.startswith("task_executor_") for path in place.joinpath("toy_0").iterdir())
        of_server = {path.name for path in (logs / "fate_flow").iterdir()}
        assert {"fate_flow_audit.log", "fate_flow_stat.log", "fate_flow_access.log", "peewee.log"} <= of_server
        assert [name for name in found if name.endswith("_error.log")] == []
    audit = "\n".join(cluster.guest.log(job_id, "fate_flow_audit.log"))
    for verb in ("create", "status/waiting", "resource/apply", "start"):
        assert f"remote http api request: {cluster.host.url}/v1/party/{job_id}/host/{HOST}/{verb}" in audit
        response = f"remote http api response: /v1/party/{job_id}/host/{HOST}/{verb} {{"
        assert "'retcode': 0" in audit.partition(response)[2].splitlines()[0]


def test_the_toy_of_the_command_line_prints_the_sum(cluster: Cluster, tmp_path: Path) -> None:
    printed = cluster.guest.flow("test", "toy", "-gid", GUEST, "-hid", HOST, cwd=tmp_path)
    line = printed.out.splitlines()[-1]
    assert "secure_add_guest" in line
    assert line.endswith("success to calculate secure_sum, it is 2000")


# ---------------------------------------------------------------------- the shapes of a DAG


def two_branches(parallelism: int) -> dict[str, Any]:
    return job_of(
        {name: {"module": "SecureAddExample"} for name in ("left_0", "right_0")}, {"guest": [GUEST], "host": [HOST]},
        parameters={"task_cores": 2, "task_parallelism": parallelism},
    )


def span(party: PartyServer, job_id: str, component: str) -> tuple[int, int]:
    [row] = party.tasks(job_id, component)
    return row["f_start_time"], row["f_end_time"]


def test_independent_branches_run_at_the_same_time(on_sqlite: Cluster) -> None:
    cluster, guest = on_sqlite, on_sqlite.guest
    with cluster.held(HOST):
        job_id = cluster.submit(two_branches(parallelism=2))
        eventually(
            lambda: [row["f_party_status"] for row in guest.tasks(job_id)] == ["running", "running"], "both branches"
        )
        assert guest.job(job_id)["f_cores"] == 4
    cluster.wait(job_id, "success")
    left, right = (span(guest, job_id, name) for name in ("left_0", "right_0"))
    assert left[0] < right[1]
    assert right[0] < left[1]


def test_branches_that_nothing_was_reserved_for_run_one_after_the_other(on_sqlite: Cluster) -> None:
    cluster, guest = on_sqlite, on_sqlite.guest
    with cluster.held(HOST):
        job_id = cluster.submit(two_branches(parallelism=1))
        guest.worker_of(job_id, "*")
        assert guest.job(job_id)["f_cores"] == 2
        assert sorted(row["f_status"] for row in guest.tasks(job_id)) == ["running", "waiting"]
    cluster.wait(job_id, "success")
    for party in (guest, cluster.host):
        first, second = sorted(span(party, job_id, name) for name in ("left_0", "right_0"))
        assert first[1] <= second[0]


def test_a_task_starts_when_its_inputs_are_there(with_tables: Cluster) -> None:
    cluster = with_tables
    job_id = cluster.run(job_of(
        {"sum_x": summing("reader_0.raw"), "sum_y": summing("reader_0.raw"), "reader_0": READER}, EVERYBODY,
        common={"reader_0": table_named("numbers"), "sum_x": {"column": "x"}, "sum_y": {"column": "y"}},
    ))
    for party in cluster.parties.values():
        assert party.metrics(job_id, "sum_x")["total"] == "555.00"
        assert party.metrics(job_id, "sum_y")["total"] == "555000.00"
        reader_end = span(party, job_id, "reader_0")[1]
        assert reader_end <= min(span(party, job_id, name)[0] for name in ("sum_x", "sum_y"))


def test_each_party_gets_its_own_parameters(with_tables: Cluster) -> None:
    """`all` under `0|1` under `1`, and the role over what is common: the total tells who added up which column."""
    cluster = with_tables
    job_id = cluster.run(job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, EVERYBODY,
        common={"sum_0": {"column": "x", "precision": 0}},
        by_role={
            "guest": {"0": {"reader_0": table_named("numbers")}},
            "host": {
                "all": {"reader_0": table_named("no such table")},
                "0|1": {"reader_0": table_named("numbers")},
                "1": {"sum_0": {"column": "y"}},
            },
        },
    ))
    for party_id, role, column in ((GUEST, "guest", "x"), (HOST, "host", "x"), (OTHER, "host", "y")):
        party = cluster.parties[party_id]
        assert party.metrics(job_id, "sum_0")["total"] == str(5 * (1 + 10 + 100_000))
        place = {"job_id": job_id, "role": role, "party_id": party_id, "component_name": "sum_0"}
        described = party.ask("tracking/component/parameters", place)
        assert described["module"] == "SecureSum"
        assert described["ComponentParam"]["column"] == column
    configs = {
        one: cluster.parties[one].ask("job/config", {"job_id": job_id, "role": role, "party_id": one})
        for one, role in ((GUEST, "guest"), (HOST, "host"), (OTHER, "host"))
    }
    assert len({config["digest"] for config in configs.values()}) == 1
    withheld = {one: [seat["party_id"] for seat in config.get("withheld", ())] for one, config in configs.items()}
    assert withheld == {GUEST: [], HOST: [GUEST, OTHER], OTHER: [GUEST]}, "of a host, what is for both of them is known"
    by_role = configs[HOST]["runtime_conf"]["component_parameters"]["role"]
    assert (by_role["guest"], by_role["host"]["1"]) == ({"0": {}}, {})


def test_what_need_not_run_passes_and_the_others_go_on_without_it(with_tables: Cluster) -> None:
    cluster = with_tables
    job_id = cluster.run(job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw"), "sum_1": summing("reader_0.raw")}, EVERYBODY,
        common={
            "reader_0": table_named("numbers"), "sum_0": {"column": "x", "precision": 0},
            "sum_1": {"column": "x", "need_run": False},
        },
        by_role={"host": {"1": {"sum_0": {"need_run": False}}}},
    ))
    assert cluster.host.metrics(job_id, "sum_0")["total"] == str(5 * (1 + 10))
    statuses = {
        (name, row["f_component_name"]): row["f_party_status"]
        for name, party in cluster.parties.items()
        for row in party.tasks(job_id)
    }
    assert {key for key, status in statuses.items() if status == "pass"} == {
        (GUEST, "sum_1"), (HOST, "sum_1"), (OTHER, "sum_1"), (OTHER, "sum_0")
    }
    assert set(statuses.values()) == {"pass", "success"}
    assert cluster.parties[OTHER].rows("SELECT * FROM t_worker WHERE f_job_id = ? AND f_component_name <> ?",
                                       job_id, "reader_0") == []


def test_a_role_that_no_component_runs_at_takes_part_without_tasks_and_cores(with_tables: Cluster) -> None:
    cluster = with_tables
    job_id = cluster.run(job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")},
        {"guest": [GUEST], "host": [HOST], "arbiter": [OTHER]},
        common={"reader_0": table_named("numbers"), "sum_0": {"column": "x"}},
    ))
    row = cluster.parties[OTHER].job(job_id)
    assert (row["f_role"], row["f_status"], row["f_cores"]) == ("arbiter", "success", 0)
    assert cluster.parties[OTHER].tasks(job_id) == []
