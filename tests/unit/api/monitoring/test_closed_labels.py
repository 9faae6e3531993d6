"""The labels of all metrics: where their values come from, and that nobody from outside can add one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from prometheus_client.core import Metric

import fate_flow
from fate_flow.api.app import create_public_app
from fate_flow.api.monitoring.families import CIRCUITS, FROM_IT, TO_IT, ScrapeCollector
from fate_flow.api.monitoring.routes import scrape_of
from fate_flow.core.metrics.measures import (
    ANSWERED,
    EXCHANGE_BYTES,
    MEASURES,
    NO_PEER,
    READ,
    RECEIVED,
    ROUND_OUTCOMES,
    SENT,
    WRITE,
)
from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, JOB_UNFINISHED, TASK_END, JobStatus, WorkerStatus
from fate_flow.core.notifications.subscribers import KINDS
from fate_flow.core.text.peer_problems import PeerProblem
from fate_flow.peers.network_errors import ERROR_CLASSES
from fate_flow.records.measures.kept_measures import KeptMeasures
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session
from fate_flow.store.views.server_state import REASONS, RECORD_LOGS
from tests.kit.api.client_world import GUEST, HOST, World, make_world
from tests.kit.api.paths_of_commands import paths_of_commands
from tests.kit.api.recorded_world import add_exports
from tests.kit.api.routes_compiled_once import with_routes_compiled_once

Allowed = Iterable[str]
MADE_UP = "invented"
JOB = "202601011200000000001"

_REASON = {one.value for one in Reason}
_ROLE, _HOLDS = set(ROLES), {"total", "free"}


def _values(statuses: Iterable[JobStatus] | Iterable[WorkerStatus]) -> set[str]:
    return {one.value for one in statuses}


def sources(world: World) -> Mapping[str, Mapping[str, Allowed]]:
    """Of each family the values that each label may have: from an enum of the core, HTTP or the configuration."""
    settings = world.services.settings
    peer, engine = {"peer": set(settings.routes)}, {"engine": set(settings.engines)}
    export = {"export": {one.name for one in settings.recording.exports}}
    api = {"api": {"parties", "v1", "v2", "board", "monitoring", "other"}}
    ended_tasks = {one.value for one in TASK_END}
    return {
        "build_info": {"version": {fate_flow.__version__}, "party_id": {settings.party_id}},
        "jobs": {"role": _ROLE, "status": _values(JOB_UNFINISHED)},
        "pending_workloads": {"status": {"active", "inadmissible"}, "reason": REASONS},
        "oldest_pending_seconds": {"status": {"active", "inadmissible"}, "reason": REASONS},
        "reserving_active_workloads": {}, "jobs_awaiting_approval": {}, "intake_held": {},
        "disk_free_bytes": {}, "disk_least_free_bytes": {}, "spool_limit_bytes": {}, "spool_bytes": {},
        "workers": {"status": _values({WorkerStatus.CREATED, WorkerStatus.RUNNING})},
        "engine_cores": {**engine, "kind": _HOLDS}, "engine_memory_bytes": {**engine, "kind": _HOLDS},
        "engine_gpus": {**engine, "kind": _HOLDS},
        "record_entries": {"log": RECORD_LOGS}, "record_unsealed_entries": {"log": RECORD_LOGS},
        "record_export_waiting": export, "record_export_failing": export,
        "scheduler_awake_seconds": {},
        "peer_circuit": {**peer, "circuit": CIRCUITS},
        "peer_problem": {**peer, "direction": {TO_IT, FROM_IT}, "problem": set(PeerProblem)},
        "peer_silence_seconds": peer, "peer_cut_off_seconds": peer,
        "peer_last_answer_timestamp_seconds": peer,
        "outbox_commands": peer, "outbox_oldest_seconds": peer,
        "notifications_waiting": {"channel": KINDS},
        "http_requests": {**api, "code": {str(one.value) for one in HTTPStatus}},
        "http_request_duration_seconds": api,
        "peer_requests": {**peer, "outcome": {ANSWERED, *ERROR_CLASSES}}, "peer_request_duration_seconds": peer,
        "exchange_bytes": {"peer": {*settings.routes, NO_PEER}, "direction": {SENT, RECEIVED}},
        "job_ends": {"role": _ROLE, "status": _values(JOB_END), "reason": _REASON},
        "task_ends": {"role": _ROLE, "status": ended_tasks, "reason": {*_REASON, ""}},
        "worker_ends": {"reason": {*_REASON, ""}},
        "admission_wait_time_seconds": {}, "reservation_rounds": {"outcome": ROUND_OUTCOMES},
        "scheduler_step_duration_seconds": {},
        "database_transaction_duration_seconds": {"kind": {READ, WRITE}},
        "notifications": {"channel": KINDS, "outcome": {"sent", "failed", "dropped"}},
    }  # fmt: skip


def families(world: World, spool: Spool | None = None) -> list[Metric]:
    return list(ScrapeCollector(scrape_of(world.services, spool)).collect())


def strangers(world: World) -> Iterator[tuple[str, str, str]]:
    """Each value of a label that its source does not have: family, label, value."""
    known = sources(world)
    for family in families(world):
        allowed = known[family.name.removeprefix("fate_flow_")]
        for one in family.samples:
            for label, value in one.labels.items():
                if label != "le" and value not in allowed[label]:
                    yield family.name, label, value


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", SpoolLimits(), lambda: None)


@pytest.fixture
def world(tmp_path: Path, spool: Spool) -> Iterator[World]:
    """A server that counts, with all of its routes."""
    made = make_world(tmp_path)
    add_exports(made, "siem")
    object.__setattr__(made.services.context, "measures", KeptMeasures(made.services.settings.measures_dir))
    made.app = with_routes_compiled_once(lambda: create_public_app(made.services, spool))
    yield made
    made.store.close()


def test_each_family_says_where_the_values_of_its_labels_come_from(world: World, spool: Spool) -> None:
    known = sources(world)
    world.add_job()
    world.write_peers('{"10000": {"circuit": "open", "answered_at": 1}}')
    found = {one.name.removeprefix("fate_flow_"): one for one in families(world, spool)}
    assert set(known) == set(found)
    measured = {one.name.removeprefix("fate_flow_"): one.labels for one in MEASURES}
    for name, family in found.items():
        labels = measured.get(name) or tuple(family.samples[0].labels if family.samples else ())
        assert tuple(known[name]) == labels, name
    assert list(strangers(world)) == []


def test_a_value_without_a_source_is_noticed(world: World) -> None:
    world.services.context.measures.count(EXCHANGE_BYTES, "424242", RECEIVED)
    assert list(strangers(world)) == [("fate_flow_exchange_bytes", "peer", "424242")]


BODY = {
    "reason": MADE_UP, "caused_by": f"{MADE_UP} 424242", "party_status": MADE_UP, "status": MADE_UP, "role": MADE_UP,
    "message": MADE_UP, "free_cores": 1, "revision": 1, "component": MADE_UP, "job_parameters": {MADE_UP: 1},
    "component_parameters": {MADE_UP: {}}, "party_id": "424242", "engine": MADE_UP, "channel": MADE_UP,
    "dsl": {"components": {MADE_UP: {"module": MADE_UP}}}, "runtime_conf": {"role": {MADE_UP: [424242]}},
}  # fmt: skip


def commands(world: World, client: FlaskClient) -> None:
    """Each kind of command, about a job that has its sender, by a partner that makes up what it says."""
    for place, path in enumerate(paths_of_commands(JOB).values()):
        own = Party("guest", "10000")
        job_id = f"{JOB[:-2]}{place + 10}"
        is_report = path.startswith("initiator")
        world.add_job(job_id, JobStatus.RUNNING, GUEST if is_report else Party("host", "9999"),
                      GUEST if is_report else own)  # fmt: skip
        client.post(f"/v1/{path.replace(JOB, job_id)}", json=BODY, headers={"SRC-PARTY-ID": "10000"})
        for one in ("canceled", "failed"):
            client.post(f"/v1/party/{job_id}/host/9999/stop/{one}", json=BODY, headers={"SRC-PARTY-ID": "10000"})


def paths(world: World, client: FlaskClient) -> None:
    for start in ("", "v1/", "v2/", "v1/party/", "v1/exchange/", "v1/initiator/", "board/", "metrics/"):
        client.get(f"/{start}{MADE_UP}")
        client.post(f"/{start}{MADE_UP}/{MADE_UP}", json=BODY, headers={"SRC-PARTY-ID": "424242"})
        client.open(f"/{start}{MADE_UP}", method=MADE_UP.upper())


def parties(world: World, client: FlaskClient) -> None:
    for path in paths_of_commands(JOB).values():
        client.post(f"/v1/{path}", json=BODY, headers={"SRC-PARTY-ID": "424242"})
    client.post("/v1/party/batch", json={"commands": [{"endpoint": "/party/x", "body": BODY}]},
                headers={"SRC-PARTY-ID": "424242"})  # fmt: skip


@pytest.mark.parametrize("ask", [commands, paths, parties])
def test_a_request_with_made_up_values_adds_no_series(world: World, ask: Callable[[World, FlaskClient], None]) -> None:
    ask(world, world.app.test_client())
    assert list(strangers(world)) == []
    text = world.client.get("/metrics").text
    assert MADE_UP not in text
    assert "424242" not in text
    counted = next(one for one in families(world) if one.name == "fate_flow_http_requests")
    assert sum(one.value for one in counted.samples) > 20, "nothing of it has come so far"


def test_a_stop_with_a_made_up_reason_ends_the_job_with_one_of_ours(world: World) -> None:
    commands(world, world.app.test_client())
    ends = next(one for one in families(world) if one.name == "fate_flow_job_ends")
    assert ends.samples
    assert {one.labels["reason"] for one in ends.samples} <= _REASON


@pytest.mark.parametrize(("sender", "peer"), [("10000", "10000"), ("424242", NO_PEER)])
def test_what_a_party_without_a_route_delivers_is_counted_as_that_of_others(
    world: World, spool: Spool, sender: str, peer: str
) -> None:
    """The document of a job may name any party, and where requests are not signed anybody says to be it."""
    to = Session(JOB, f"{JOB}_toy_0", 0, "a1b2c3d4", GUEST.role, GUEST.party_id)
    spool.open(to, ((GUEST.role, GUEST.party_id), (HOST.role, sender)), "token")
    response = world.app.test_client().post(
        f"/v1/exchange/deliver/{JOB}/{JOB}_toy_0/0/a1b2c3d4/host/{sender}/guest/9999?topic=t&seq=0&last=1",
        data=b"hello", headers={"SRC-PARTY-ID": sender},
    )  # fmt: skip
    assert response.status_code == 200, response.data
    [counted] = [one for one in families(world) if one.name == "fate_flow_exchange_bytes"]
    assert [(one.labels["peer"], one.value) for one in counted.samples] == [(peer, 5)]
