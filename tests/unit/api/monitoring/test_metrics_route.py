"""`/metrics`, `/healthz` and `/readyz`: what they say, and to whom."""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fate_flow.core.access.client_roles import METRICS, READ, SUBMIT, ClientRole
from fate_flow.core.metrics.measures import (
    EXCHANGE_BYTES,
    JOB_ENDS,
    MEASURES,
    PEER_REQUESTS,
    RECEIVED,
    WORKER_ENDS,
)
from fate_flow.core.metrics.spans import Step, StepName
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JobStatus
from fate_flow.core.record.entry import log_with
from fate_flow.records.export_state import ExportState, ExportStates
from fate_flow.records.measures.kept_measures import KeptMeasures
from fate_flow.services.context.counting import count_pending
from fate_flow.services.context.pending import Pending
from fate_flow.services.context.recording import record_act
from fate_flow.services.context.unit_of_work import unit_of_work
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import Client, add_client, revoke_client
from fate_flow.store.values import Delivery
from tests.kit.api.client_world import GUEST, HOST, World, make_world
from tests.kit.api.recorded_world import SENT, add_exports, recorded_world
from tests.kit.api.signed_requests import asked
from tests.kit.notifications.subscribers import ANN, BEN, OPS, a_notification
from tests.kit.services.records import add, an_entry

OWNER = ClientKeys("the-app", "the-secret")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def signed(tmp_path: Path) -> World:
    return make_world(tmp_path, client_keys=OWNER)


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Each number of a scrape by its name and the values of its labels, in the order of the names of the labels."""

    def found() -> Iterator[tuple[tuple[str, tuple[str, ...]], float]]:
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                labels = tuple(value for _, value in sorted(one.labels.items()))
                yield (one.name.removeprefix("fate_flow_"), labels), one.value

    return dict(found())


def scrape(world: World) -> dict[tuple[str, tuple[str, ...]], float]:
    response = world.client.get("/metrics")
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain; version=")
    return samples(response.text)


def awake_for(world: World, milliseconds: int) -> None:
    with world.store.transaction() as tx:
        owner, counter = tx.scheduler()
        assert tx.take_scheduler_lease(owner, counter, "me")
        assert tx.renew_scheduler_lease("me", milliseconds)


# ---------------------------------------------------------------------- what it says


def test_jobs_are_shown_by_status_and_by_the_reason_why_they_wait(world: World) -> None:
    world.add_job(status=JobStatus.RUNNING, f_resource_in_use=True, f_claim="c", f_cores=4)
    world.add_job()
    world.add_job(f_lacks="room", f_blocked_on="10000")
    world.add_job(f_lacks="size", f_blocked_on="10000")
    world.add_job(f_held=True, f_lacks="room")
    world.add_job(f_rerun_signal=True, f_retry_at=9_000)
    world.add_job(f_rerun_signal=True)
    world.add_job(party=HOST, initiator=GUEST, f_approval="pending")
    for _ in range(3):
        world.add_job(status=JobStatus.FAILED)
    awake_for(world, 61_000)
    found = scrape(world)
    assert found["jobs", ("guest", "running")] == 1
    assert found["jobs", ("guest", "waiting")] == 6
    assert found["jobs", ("guest", "stopping")] == 0
    assert found["jobs", ("host", "waiting")] == 1
    pending = {labels: value for (name, labels), value in found.items() if name == "pending_workloads"}
    assert pending == {
        ("hold", "inadmissible"): 1, ("approval", "inadmissible"): 0, ("size", "inadmissible"): 1,
        ("capacity", "active"): 1, ("party", "active"): 0, ("backoff", "active"): 1, ("rejoin", "active"): 1,
        ("queue", "active"): 1,
    }  # fmt: skip
    oldest = {labels: value for (name, labels), value in found.items() if name == "oldest_pending_seconds"}
    assert oldest == {labels: 61 * count for labels, count in pending.items()}
    assert found["reserving_active_workloads", ()] == 1
    assert found["jobs_awaiting_approval", ()] == 1
    assert found["engine_cores", ("local", "total")] == 20
    assert ("jobs", ("guest", "failed")) not in found


def test_each_party_of_the_configuration_has_its_numbers(world: World) -> None:
    with world.store.transaction() as tx:
        tx.note_trouble(PeerTrouble("10000", silent_since=1_000, silence="connection refused"))
    awake_for(world, 31_000)
    world.write_peers('{"10000": {"circuit": "open"}}')
    found = scrape(world)
    assert found["peer_silence_seconds", ("10000",)] == 30
    assert found["peer_cut_off_seconds", ("10000",)] == 0
    assert [found["peer_circuit", (one, "10000")] for one in ("closed", "open", "probing")] == [0, 1, 0]
    assert found["peer_problem", ("to", "10000", "refused")] == 1
    assert found["outbox_commands", ("10000",)] == 0
    assert ("peer_last_answer_timestamp_seconds", ("10000",)) not in found
    with world.store.transaction() as tx:
        tx.note_trouble(PeerTrouble("10000", cut_off_since=1_000, cut_off="no answer in time"))
    found = scrape(world)
    assert {labels for name, labels in found if name == "peer_problem"} == {
        ("from", "10000", "no answer"), ("to", "10000", "no answer"),
    }  # fmt: skip
    with world.store.transaction() as tx:
        tx.note_trouble(PeerTrouble("10000"))
    world.write_peers('{"10000": {"circuit": "closed", "answered_at": 1700000000500}}')
    assert not [name for name, _ in scrape(world) if name == "peer_problem"]
    assert scrape(world)["peer_last_answer_timestamp_seconds", ("10000",)] == 1700000000.5
    world.write_peers("{")
    assert scrape(world)["peer_circuit", ("closed", "10000")] == 1


def test_notifications_that_wait_are_counted_by_their_kind(world: World) -> None:
    with world.store.transaction() as tx:
        tx.add_notification(a_notification(1), (OPS, ANN, BEN))
        tx.end_notification(tx.waiting_notifications(ANN.channel, 1)[0].number, Delivery.SENT, 1, "", 7)
    found = scrape(world)
    assert [found["notifications_waiting", (kind,)] for kind in ("email", "webhook")] == [1, 1]


def test_what_processes_have_counted_is_added_up(world: World) -> None:
    folder = world.services.settings.measures_dir
    scheduler, http = KeptMeasures(folder), KeptMeasures(folder)
    ended = HistoryEntry("1", HistoryLevel.JOB, "running", "failed", 0, GUEST, reason="task_failed")
    exits = HistoryEntry("1", HistoryLevel.WORKER, "running", "exited", 0, GUEST, reason="worker_killed")
    starts = HistoryEntry("1", HistoryLevel.JOB, "waiting", "running", 0, GUEST)
    seat = HistoryEntry("1", HistoryLevel.SEAT, "started", "failed", 0, GUEST)
    elsewhere = replace(ended, level=HistoryLevel.PARTY_TASK, party=HOST)
    rounds = [Step(StepName.ROUND_BEGUN, "1", GUEST), Step(StepName.ROUND_FAILED, "1", GUEST, reason="capacity")]
    moved = (ended, exits, starts, seat, elsewhere)
    count_pending(scheduler, Pending(moved=moved, steps=(*rounds, *rounds)), GUEST.party_id)
    scheduler.count(PEER_REQUESTS, "10000", "refused")
    http.count(PEER_REQUESTS, "10000", "refused")
    http.count(EXCHANGE_BYTES, "10000", RECEIVED, by=4096)
    found = scrape(world)
    assert found[f"{JOB_ENDS.name.removeprefix('fate_flow_')}_total", ("task_failed", "guest", "failed")] == 1
    assert found[f"{WORKER_ENDS.name.removeprefix('fate_flow_')}_total", ("worker_killed",)] == 1
    assert found["peer_requests_total", ("refused", "10000")] == 2
    assert found["exchange_bytes_total", ("received", "10000")] == 4096
    assert found["reservation_rounds_total", ("capacity",)] == 2
    assert len([key for key in found if key[0] == "job_ends_total"]) == 1
    assert not [key for key in found if key[0] == "task_ends_total"], "the share of another party"


def test_no_label_grows_with_jobs_or_callers(world: World) -> None:
    before = {key[0] for key in scrape(world)}
    for number in range(5):
        world.add_job(f"2026010112000000000{number}")
        world.client.get(f"/v1/some/{number}")
    text = world.client.get("/metrics").text
    assert "2026010112" not in text
    assert "/some/" not in text
    assert before <= {key[0] for key in samples(text)}
    assert {label for one in MEASURES for label in one.labels} <= {
        "api", "code", "peer", "outcome", "direction", "role", "status", "reason", "kind", "channel",
    }  # fmt: skip


# ---------------------------------------------------------------------- to whom


def password(client: Client, secret: str = "") -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{client.app_key}:{secret or client.secret_key}".encode()).decode()}


def status(world: World, client: Client, secret: str = "", path: str = "/metrics") -> int:
    return world.client.get(path, headers=password(client, secret)).status_code


def a_client(world: World, name: str, roles: ClientRole) -> Client:
    return add_client(world.home, name, roles, 1)


def test_a_key_for_metrics_alone_may_be_a_password(signed: World) -> None:
    scraper = a_client(signed, "prometheus", METRICS)
    assert status(signed, scraper) == 200
    assert status(signed, scraper, "another") == 403
    assert signed.record.callers[-2:] == ["prometheus", "-"]
    revoke_client(signed.home, "prometheus", None, 2)
    assert status(signed, scraper) == 403
    assert signed.client.get("/metrics").status_code == 403
    assert signed.client.get("/metrics", headers={"Authorization": "Bearer x"}).status_code == 403


def test_a_key_that_may_do_more_is_no_password(signed: World) -> None:
    person = a_client(signed, "anna", SUBMIT | METRICS)
    response = signed.client.get("/metrics", headers=password(person))
    assert response.status_code == 403
    assert "anna" in response.json["retmsg"]
    assert asked(signed, person, "/metrics", method="GET").status_code == 200
    assert asked(signed, a_client(signed, "bert", READ), "/metrics", method="GET").status_code == 200


def test_a_key_for_metrics_reads_nothing_else(signed: World) -> None:
    scraper = a_client(signed, "prometheus", METRICS)
    assert asked(signed, scraper, "/v1/job/query", {"job_id": "1"}).json["retcode"] == 108
    response = signed.client.post("/v1/version/get", headers=password(scraper), json={})
    assert response.json["retcode"] == 109


def test_exports_of_the_record_say_what_waits_and_whether_it_is_taken(world: World) -> None:
    add_exports(world, "siem", "new", "broken")
    ExportStates(world.home).write("siem", ExportState({"own": (1, 1)}, {}, "connection refused"))
    (world.home / "record" / "exports" / "broken.json").write_text('{"position": {}, "last": 7, "error": ""}')
    add(world.store, [an_entry(one) for one in "abc"])
    found = samples(world.client.get("/metrics").text)
    assert {key: value for key, value in found.items() if key[0].startswith("record_export")} == {
        ("record_export_waiting", ("siem",)): 2.0, ("record_export_failing", ("siem",)): 1.0,
        ("record_export_waiting", ("new",)): 3.0, ("record_export_failing", ("new",)): 0.0,
        ("record_export_waiting", ("broken",)): 3.0, ("record_export_failing", ("broken",)): 1.0,
    }  # fmt: skip


def test_the_record_says_how_long_it_is_and_what_is_not_sealed(tmp_path: Path) -> None:
    world = recorded_world(tmp_path)
    with world.store.transaction() as tx:
        sizes = {head.log: head.size for head in tx.record_heads()}
    with unit_of_work(world.services.context) as unit:
        record_act(unit, "submitted", "alice", "j")
        unit.send(SENT)
    found = {key: value for key, value in scrape(world).items() if key[0].endswith("_entries")}
    assert found == {
        ("record_entries", ("own",)): sizes["own"], ("record_entries", ("with",)): sizes[log_with("10000")],
        ("record_unsealed_entries", ("own",)): 1, ("record_unsealed_entries", ("with",)): 1,
    }  # fmt: skip
    assert sizes["own"] > sizes[log_with("10000")] > 0


def test_a_party_without_a_record_has_the_series_all_the_same(world: World) -> None:
    found = {key: value for key, value in scrape(world).items() if key[0].endswith("_entries")}
    assert len(found) == 4
    assert set(found.values()) == {0}


# ---------------------------------------------------------------------- probes


def test_probes_need_no_key_and_learn_which_check_has_failed(signed: World) -> None:
    assert signed.client.get("/healthz").text == "ok\n"
    response = signed.client.get("/readyz")
    assert response.status_code == 503
    assert response.json["retmsg"] == "scheduler: has not started yet"
    file = signed.services.settings.alive_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("1")
    assert (signed.client.get("/readyz").status_code, signed.client.get("/readyz").text) == (200, "ready\n")
    old = time.time() - 100
    os.utime(file, (old, old))
    assert "no sign of life" in signed.client.get("/readyz").json["retmsg"]
