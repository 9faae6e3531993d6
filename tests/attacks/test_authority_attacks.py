"""Parties with valid keys say and ask what they may not, over the gateway of a running server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fate_flow.core.access.authority import TO_INITIATORS
from fate_flow.core.model.job import CommandKind
from tests.kit.api.paths_of_commands import paths_of_commands
from tests.kit.attacks.attacked_server import (
    HONEST,
    HOSTILE,
    OWN,
    AttackedServer,
    create_body,
    new_job_id,
    program,
    reader,
    task_path,
)
from tests.kit.key_lists import signed_list
from tests.kit.servers.home_files import contents_below
from tests.kit.site_keys import private_key
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("kept_connections")]

HIGHEST = 2**31 - 1
"""The highest revision that the database can keep."""

# ---------------------------------------------------------------------- a party that is not in the job


@pytest.mark.parametrize("kind", list(CommandKind), ids=lambda kind: kind.value)
def test_a_party_without_a_seat_commands_no_running_job(
    attacked: AttackedServer, job_here: str, own_job: str, kind: CommandKind
) -> None:
    """Alone and in a batch, with a document of its own."""
    job_id = own_job if kind in TO_INITIATORS else job_here
    path, before = paths_of_commands(job_id)[kind], attacked.rows(job_id)
    body: dict[str, Any] = {
        **create_body(job_id, reader(HOSTILE, "open")), "revision": HIGHEST, "free_cores": 1, "party_status": "failed",
        "job_parameters": {}, "component_parameters": {},
    }  # fmt: skip
    batch = attacked.ask(HOSTILE, "party/batch", {"commands": [{"endpoint": f"/{path}", "body": body}]})
    for said in (attacked.ask(HOSTILE, path, body), *batch["data"]):
        assert said["retcode"] == 108, said
    assert attacked.rows(job_id) == before


TASK_LOG = {"component_name": "toy_0", "role": "host", "party_id": OWN}


def test_a_party_without_a_seat_reads_nothing_of_a_running_job(attacked: AttackedServer, job_here: str) -> None:
    seat = {"role": "host", "party_id": OWN}
    # Of a guess at its document, and of one of its own under the same id.
    guess, own = program(HONEST, {"host": [OWN]}), reader(HOSTILE, "open")
    for said in (
        attacked.ask(HOSTILE, "party/history", {"job_id": job_here}),
        attacked.ask(HOSTILE, "party/task/log", {"job_id": job_here, **TASK_LOG}),
        attacked.ask(HOSTILE, f"tracker/{job_here}/toy_0/host/{OWN}/output/table"),
        attacked.ask(HOSTILE, "party/validate", {**create_body(job_here, guess), **seat}),
        attacked.ask(HOSTILE, "party/validate", {**create_body(job_here, own), **seat}),
    ):
        assert said["retcode"] == 108, said
    beat = attacked.ask(HOSTILE, "party/heartbeat", {"jobs": [[job_here, 0], [new_job_id(), 0]]})
    # It is as unknown to this party as a job that nobody has.
    assert set(beat["data"]["ended"].values()) == {"it is not known here"}


def test_a_party_without_a_seat_gives_the_workers_of_a_job_no_message(attacked: AttackedServer, job_here: str) -> None:
    for sender, status in ((f"guest/{HONEST}", 403), (f"host/{HOSTILE}", 404), (f"host/{OWN}", 403)):
        place = f"{job_here}/{job_here}_toy_0/0/{'ab' * 16}/{sender}/host/{OWN}"
        assert attacked.raw(HOSTILE, f"exchange/deliver/{place}?topic=a&seq=0&last=1", b"x")[0] == status, sender


def test_a_party_is_nobody_else_and_least_of_all_this_server(attacked: AttackedServer, job_here: str) -> None:
    before = attacked.rows(job_here)
    for name in (HONEST, OWN, "0", "000", f"0{OWN}", "", f"{HONEST}, {HOSTILE}"):
        for path in (f"party/{job_here}/host/{OWN}/stop/canceled", "party/heartbeat", "party/history"):
            said = attacked.ask(HOSTILE, path, {"job_id": job_here, "jobs": []}, SRC_PARTY_ID=name)
            assert said["retcode"] == 109, (name, path, said)
    for seat in ("local/0", f"local/{OWN}", "host/0"):
        said = attacked.ask(HOSTILE, f"party/{job_here}/{seat}/stop/canceled")
        assert said["retcode"] == 108, (seat, said)
    assert attacked.rows(job_here) == before


# ---------------------------------------------------------------------- one job id, several seats


@pytest.mark.parametrize("of_this_server", [False, True], ids=["job of another party", "job of this server"])
def test_no_seat_of_a_foreign_job_is_taken_with_the_highest_revision(
    attacked: AttackedServer, job_here: str, own_job: str, of_this_server: bool
) -> None:
    """The seat is free, the document is the attacker's own or says that the bound initiator has made it."""
    job_id, initiator = (own_job, OWN) if of_this_server else (job_here, HONEST)
    before, roles = attacked.rows(job_id), {"host": [OWN], "arbiter": [OWN]}
    for named in (HOSTILE, initiator):
        documents = (*(reader(named, table, roles) for table in ("open", "secret")), program(named, roles))
        for document in documents:
            for seat in (f"arbiter/{OWN}", f"host/{OWN}", f"guest/{OWN}"):
                for revision in (0, 1, HIGHEST):
                    body = create_body(job_id, document, revision=revision)
                    said = attacked.ask(HOSTILE, f"party/{job_id}/{seat}/create", body)
                    assert said["retcode"] == 108, (named, seat, revision, said)
    assert attacked.rows(job_id) == before


def test_of_two_parties_that_found_one_job_at_once_one_has_it(attacked: AttackedServer) -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            job_id = new_job_id()
            path, founders = f"party/{job_id}/host/{OWN}/create", (HONEST, HOSTILE) * 2
            bodies = [create_body(job_id, reader(one, "open")) for one in founders]
            answers = list(pool.map(attacked.ask, founders, [path] * 4, bodies))
            taken = {one for one, said in zip(founders, answers, strict=True) if said["retcode"] == 0}
            [row] = attacked.server.rows("SELECT f_initiator_party_id AS id FROM t_job WHERE f_job_id = ?", job_id)
            assert taken == {row["id"]}, answers
            attacked.end(row["id"], job_id)


def test_a_job_ends_where_another_host_of_it_was_given_another_document(attacked: AttackedServer) -> None:
    """The coordinator lies to one of two hosts. The other host asks when the job has begun there, too."""
    job_id = new_job_id()
    attacked.begin(HONEST, job_id, program(HONEST, {"host": [OWN, HOSTILE]}))
    attacked.await_program(job_id)
    path, seat = f"party/{job_id}/host/{OWN}/document/compare", {"role": "host", "party_id": HOSTILE}
    same = attacked.ask(HOSTILE, path, {**seat, "revision": 0, "document": "", "is_running": True})
    assert (same["retcode"], same["data"]["is_running"]) == (0, True)
    said = attacked.ask(HOSTILE, path, {**seat, **same["data"], "document": f"fate_v1:{'ab' * 32}"})
    assert said["data"]["document"] == same["data"]["document"]
    row = eventually(
        lambda: next((one for one in (attacked.server.job(job_id),) if one["f_status"] == "failed"), None), "the end")
    assert (row["f_reason"], row["f_caused_by"]) == ("other_document", f"guest {HONEST}")
    assert row["f_message"].startswith(
        f"the coordinator gave the two parties different documents: host {HOSTILE} runs abababababab, host {OWN} runs ")
    attacked.end(HONEST, job_id)


def test_what_runs_is_what_was_granted_whatever_the_second_seat_says(attacked: AttackedServer) -> None:
    """The attack that succeeded once: a granted table for one seat, and a secret one or a program for the other."""
    roles = {"host": [OWN], "arbiter": [OWN]}
    job_id, granted = new_job_id(), reader(HOSTILE, "open", roles)
    place = f"party/{job_id}/host/{OWN}"
    assert attacked.ask(HOSTILE, f"{place}/create", create_body(job_id, granted))["retcode"] == 0
    for other in (reader(HOSTILE, "secret", roles), program(HOSTILE, roles)):
        for seat in (f"arbiter/{OWN}", f"host/{OWN}"):
            said = attacked.ask(HOSTILE, f"party/{job_id}/{seat}/create", create_body(job_id, other, revision=HIGHEST))
            assert said["retcode"] == 108, said
            assert f"has not granted party {HOSTILE}" in said["retmsg"]
            conf = {key: other["job_runtime_conf"][key] for key in ("job_parameters", "component_parameters")}
            changed = {**conf, "revision": HIGHEST, "components": ["toy_0"]}
            assert attacked.ask(HOSTILE, f"party/{job_id}/{seat}/parameter/update", changed)["retcode"] != 0
    for verb in ("status/waiting", "resource/apply", "start"):
        assert attacked.ask(HOSTILE, f"{place}/{verb}")["retcode"] == 0
    assert attacked.ask(HOSTILE, task_path(job_id, "start"))["retcode"] == 0
    eventually(lambda: attacked.server.tasks(job_id)[0]["f_party_status"] == "success", "the end of the task")
    assert attacked.ask(HOSTILE, task_path(job_id, "status/success"))["retcode"] == 0
    [read] = attacked.ask(HOSTILE, f"tracker/{job_id}/toy_0/host/{OWN}/output/table")["data"]
    assert (read["table_namespace"], read["table_name"]) == ("it", "open")
    attacked.end(HOSTILE, job_id)
    assert attacked.server.job(job_id)["f_revision"] == 0


@pytest.mark.parametrize("table", ["secret", "nowhere"])
def test_a_refusal_does_not_say_whether_a_table_exists(attacked: AttackedServer, table: str) -> None:
    """Nor are the cores that are free, or what else is wrong with the job, in it."""
    document = reader(HOSTILE, table)
    document["job_runtime_conf"]["job_parameters"]["common"]["task_cores"] = 1000
    for path, more in (("validate", {"role": "host", "party_id": OWN}), ("{}/host/9999/create", {})):
        job_id = new_job_id()
        said = attacked.ask(HOSTILE, f"party/{path}".format(job_id), {**create_body(job_id, document), **more})
        assert said["retcode"] == 108
        assert said["retmsg"].replace(table, "TABLE") == (
            f"host {OWN} has not granted party {HOSTILE}: table it/TABLE (flow privilege grant, there)"
        )


# ---------------------------------------------------------------------- fields of the database, and keys


def test_no_command_writes_a_column_of_the_database(attacked: AttackedServer, job_here: str) -> None:
    """Also by the party that may send it."""
    before = attacked.rows(job_here)
    columns = {
        "status": "success", "party_status": "success", "is_initiator": True, "resource_in_use": False, "cores": 0,
        "remaining_cores": 0, "run_pid": 1, "worker_id": "x", "initiator_party_id": HOSTILE, "runtime_conf": {},
        "provider_info": {"path": "/bin/sh"}, "run_on_this_party": False, "engine_conf": {}, "user_id": "root",
    }  # fmt: skip
    columns |= {f"f_{name}": value for name, value in columns.items()}
    for verb in ("update", "align"):
        assert attacked.ask(HONEST, f"party/{job_here}/host/{OWN}/{verb}", columns)["retcode"] == 0
    for verb in ("update", "start", "collect", "clean/metrics"):
        assert attacked.ask(HONEST, task_path(job_here, verb), columns)["retcode"] in (0, 10), verb
    assert attacked.rows(job_here) == before


def test_no_party_gets_or_changes_a_key(attacked: AttackedServer) -> None:
    keys = contents_below(attacked.home / "keys")
    stored = attacked.server.rows("SELECT * FROM t_party_key ORDER BY 1")
    mine = signed_list(HONEST, 9, private_key(7), tls=attacked.parties[HOSTILE]).text()
    body = {"party_id": HONEST, "key": mine, "key_list": mine, "fingerprint": "a"}
    for path in ("key/public/save", "key/public/delete", "key/query", "key/make", "key/private", "party/join"):
        for spelled in (path, f"/{path}", path.replace("/", "%2F")):
            assert attacked.raw(HOSTILE, spelled, body)[0] == 404, spelled
        for spelled in (f"party/../{path}", f"party/%2e%2e/{path}"):
            assert attacked.ask(HOSTILE, spelled, body)["retcode"] != 0, spelled
    answer = attacked.ask(HOSTILE, "party/keys", body)
    assert (answer["retcode"], "PRIVATE" in str(answer)) == (0, False)
    assert {path: path.read_bytes() for path in keys} == keys
    assert attacked.server.rows("SELECT * FROM t_party_key ORDER BY 1") == stored
