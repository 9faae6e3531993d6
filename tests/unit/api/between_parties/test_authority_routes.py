"""Every route of other parties asks one function what this caller may say about this job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fate_flow.api.app import create_public_app
from fate_flow.api.http.client_auth import is_for_clients
from fate_flow.core.access.authority import STATEMENTS, TO_INITIATORS, Query, Statement
from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.wire.v1.paths import read_command
from fate_flow.relay.spool import Spool, SpoolLimits
from tests.kit.api.client_world import World
from tests.kit.api.paths_of_commands import paths_of_commands
from tests.kit.api.routes_compiled_once import with_routes_compiled_once
from tests.kit.values import GUEST, HOST

pytestmark = pytest.mark.long

K = CommandKind
JOB = "202601011200000000001"
COMMANDS: frozenset[Statement] = frozenset(K)
ROUTES: dict[str, frozenset[Statement]] = {
    "/v1/party/join": frozenset(),               # of strangers: their message proves who they are (test_join_route.py)
    "/v1/party/keys": frozenset(),               # public, and signed by the root key
    "/v1/party/batch": COMMANDS,
    "/v1/party/heartbeat": frozenset({Query.HEARTBEAT}),
    "/v1/party/validate": frozenset({Query.VALIDATE}),
    "/v1/party/history": frozenset({Query.HISTORY}),
    "/v1/party/intake": frozenset({Query.INTAKE}),
    "/v1/party/task/log": frozenset({Query.TASK_LOG}),
    "/v1/party/record/add-checkpoint": frozenset({Query.RECORD}),
    "/v1/party/record/held": frozenset({Query.RECORD}),
    "/v1/party/record/log": frozenset({Query.RECORD}),
    "/v1/party/<path:rest>": COMMANDS - TO_INITIATORS,
    "/v1/initiator/<path:rest>": frozenset(TO_INITIATORS),
    "/v1/tracker/<job_id>/<component>/<role>/<party_id>/output/table": frozenset({Query.OUTPUT_TABLE}),
    "/v1/tracker/<path:rest>": frozenset(),         # says that it is on a port of its own
    "/v1/exchange/deliver/<job_id>/<task_id>/<version>/<incarnation>/<from_role>/<from_party>/<to_role>/<to_party>":
        frozenset({Query.DELIVER}),
    "/v1/exchange/stream/<job_id>/<task_id>/<version>/<incarnation>/<from_role>/<from_party>/<to_role>/<to_party>/<port>":
        frozenset({Query.STREAM}),
    "/v1/exchange/stream/call/<from_role>/<from_party>/<to_role>/<to_party>": frozenset({Query.STREAM}),
}  # fmt: skip
"""What is said on which route: a new one does not exist before it stands here."""

PATHS = paths_of_commands(JOB)


def with_spool(world: World, folder: Path) -> Any:
    spool = Spool(folder / "spool", SpoolLimits(), lambda: None)
    return with_routes_compiled_once(lambda: create_public_app(world.services, spool))


def test_every_route_of_other_parties_is_known(world: World, tmp_path: Path) -> None:
    app = with_spool(world, tmp_path)
    found = {rule.rule for rule in app.url_map.iter_rules() if not is_for_clients(rule.rule)}
    assert found == set(ROUTES)


def test_every_statement_has_its_rule_and_its_route() -> None:
    assert set(STATEMENTS) == {*CommandKind, *Query}
    assert frozenset().union(*ROUTES.values()) == set(STATEMENTS)
    assert {kind: read_command(path, {}).kind for kind, path in PATHS.items()} == {kind: kind for kind in CommandKind}


def rows(world: World) -> list[Any]:
    return [world.store.database.execute_sql(f"SELECT * FROM {table} ORDER BY 1").fetchall()
            for table in ("t_job", "t_task", "t_seat", "t_worker", "t_outbox", "t_history", "t_job_binding")]


@pytest.mark.parametrize("kind", list(CommandKind))
@pytest.mark.parametrize("in_batch", [False, True])
def test_a_party_without_a_seat_says_nothing_about_a_job(world: World, kind: CommandKind, in_batch: bool) -> None:
    """Also one with a valid key: the job of guest 10000 at host 9999, or that of guest 9999."""
    here = kind in TO_INITIATORS
    seat, initiator = (GUEST, GUEST) if here else (Party("host", "9999"), Party("guest", "10000"))
    world.add_job(JOB, JobStatus.RUNNING, seat, initiator)
    world.add_task(JOB, party=seat if not here else HOST)
    before = rows(world)
    body = {"free_cores": 1, "party_status": "failed", "job_parameters": {}, "component_parameters": {}, "revision": 9,
            "dsl": {"components": {"a": {"module": "Reader"}}}, "runtime_conf": CONF_OF_STRANGER}  # fmt: skip
    if in_batch:
        commands = [{"endpoint": f"/{PATHS[kind]}", "body": body}]
        said = world.ask("party/batch", {"commands": commands}, headers={"SRC-PARTY-ID": "10001"})["data"][0]
    else:
        said = world.ask(PATHS[kind], body, headers={"SRC-PARTY-ID": "10001"})
    assert said["retcode"] == 108, said
    assert rows(world) == before


CONF_OF_STRANGER = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": 10001},
    "role": {"guest": [10001], "host": [9999]}, "job_parameters": {"common": {"task_cores": 1}},
    "component_parameters": {"common": {"a": {"table": {"namespace": "n", "name": "t"}}}},
}  # fmt: skip


TASK_LOG = {"job_id": JOB, "component_name": "toy_0", "role": "guest", "party_id": "9999"}


@pytest.mark.parametrize(("path", "body"), [
    ("party/history", {"job_id": JOB}), ("party/task/log", TASK_LOG),
    (f"tracker/{JOB}/toy_0/guest/9999/output/table", {}),
    (f"tracker/{JOB}/toy_0/host/9999/output/table", {}),
])  # fmt: skip
def test_a_party_without_a_seat_reads_nothing_of_a_job(world: World, path: str, body: dict[str, Any]) -> None:
    world.add_job(JOB, JobStatus.RUNNING)
    assert world.ask(path, body, headers={"SRC-PARTY-ID": "10001"})["retcode"] == 108


def test_a_member_that_is_not_the_initiator_reads_no_history(world: World) -> None:
    world.add_job(JOB, JobStatus.RUNNING)
    said = world.ask("party/history", {"job_id": JOB}, headers={"SRC-PARTY-ID": "10000"})
    assert (said["retcode"], said["retmsg"]) == (108, f"party 10000 is not the initiator of job {JOB}")


@pytest.mark.parametrize("source", ["9999", "09999", "0", "000"])
@pytest.mark.parametrize("route", sorted(ROUTES))
def test_no_request_comes_from_the_own_server(world: World, tmp_path: Path, route: str, source: str) -> None:
    """Its own party id is believed of nobody, also where requests are not signed."""
    path = route.replace("<path:rest>", f"{JOB}/host/9999/start" if "party" in route else f"{JOB}/guest/9999/rerun")
    path = path.replace("<job_id>", JOB).replace("<component>", "a").replace("<task_id>", f"{JOB}_a")
    for name, value in {
        "version": "0", "incarnation": "ab" * 16, "role": "host", "party_id": "9999", "from_role": "guest",
        "from_party": "9999", "to_role": "host", "to_party": "9999",
    }.items():  # fmt: skip
        path = path.replace(f"<{name}>", value)
    client = with_spool(world, tmp_path).test_client()
    response = client.post(f"{path}?topic=a&seq=0&last=1", json={"jobs": []}, headers={"SRC-PARTY-ID": source})
    assert response.json["retcode"] in (108, 403), response.json
    assert "is this server itself" in response.json["retmsg"]


@pytest.mark.parametrize(("sender", "source", "text"), [
    ("guest/9999", "10000", "party 10000 may not speak for guest 9999"),
    ("host/10001", "10000", "party 10000 may not speak for host 10001"),
    ("local/10000", "10000", "role local and party 0 are taken from the own server only"),
    ("guest/0", "10000", "role local and party 0 are taken from the own server only"),
])  # fmt: skip
def test_a_party_delivers_for_its_own_workers_alone(
    world: World, tmp_path: Path, sender: str, source: str, text: str
) -> None:
    path = f"/v1/exchange/deliver/{JOB}/{JOB}_a/0/{'ab' * 16}/{sender}/host/9999?topic=a&seq=0&last=1"
    client = with_spool(world, tmp_path).test_client()
    response = client.post(path, data=b"x", headers={"SRC-PARTY-ID": source})
    assert (response.status_code, text in response.json["retmsg"]) == (403, True), response.json
