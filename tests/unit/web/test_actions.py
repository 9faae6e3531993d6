"""What people do on the board: the use cases of `flow job`, for the client roles that these need."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.core.access.client_roles import APPROVE, AUDIT, OPERATE, READ, SUBMIT, ClientRole
from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.job import Job
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.documents import digest_of
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.store.values import Document
from tests.kit.api.client_world import GUEST, HOST, START, TOY, TOY_CONF, World, make_world
from tests.kit.web.browser import Browser

OWNER = ClientKeys("the-app", "the-secret")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path, client_keys=OWNER)


def browser_of(world: World, roles: ClientRole) -> Browser:
    browser = Browser(world)
    name = f"has-{roles.value}"
    browser.sign_in(add_client(world.home, name, roles, 1))
    return browser


def row(world: World, job_id: str) -> Job:
    [found] = world.services.context.read(lambda tx: tx.jobs_here(job_id))
    return found


def act(browser: Browser, job_id: str, name: str, **form: str) -> str:
    """Send the form; return what the next page says."""
    response = browser.send(f"/board/jobs/{job_id}/{name}", **form)
    assert response.status_code == 303, response.text
    page = browser.get(response.headers["Location"])
    assert page.status_code == 200
    again = browser.get(response.headers["Location"])
    note = page.text.partition('<p class="note" role="status">')[2].partition("</p>")[0]
    assert note not in again.text, "a note is shown once"
    return note


def test_a_job_is_stopped(world: World) -> None:
    job_id = world.add_job()
    assert "stopped at all its parties" in act(browser_of(world, SUBMIT), job_id, "stop")
    assert row(world, job_id).cancel_requested


def test_a_job_is_held_and_released(world: World) -> None:
    browser, job_id = browser_of(world, OPERATE), world.add_job()
    assert "on hold" in act(browser, job_id, "hold", reason="until Monday")
    hold = row(world, job_id).hold
    assert hold is not None
    assert (hold.message, hold.by) == ("until Monday", "has-4")
    readable = browser.page(f"/board/jobs/{job_id}").readable
    assert "has-4 holds the job" in readable
    assert f"/board/jobs/{job_id}/release" in browser.page(f"/board/jobs/{job_id}").forms()
    assert "released" in act(browser, job_id, "release")
    assert row(world, job_id).hold is None


def test_a_priority_is_set(world: World) -> None:
    browser, job_id = browser_of(world, SUBMIT), world.add_job()
    assert "priority is -3 now" in act(browser, job_id, "priority", priority="-3")
    assert row(world, job_id).priority == -3


def test_a_failed_job_runs_again(world: World) -> None:
    job_id = world.add_job(status=JobStatus.FAILED, f_reason="task_failed", f_since=1)
    world.add_seats(job_id)
    world.write("t_seat", {"f_job_id": job_id}, f_status="left")
    world.add_task(job_id, f_status="failed", f_party_status="failed", f_end_time=1, f_reason="worker_error")
    world.add_task(job_id, party=HOST, f_status="failed", f_party_status="failed", f_end_time=1, f_reason="stopped")
    browser = browser_of(world, SUBMIT)
    assert f"/board/jobs/{job_id}/rerun" in browser.page(f"/board/jobs/{job_id}").forms()
    assert "starts again" in act(browser, job_id, "rerun", component_name="")
    assert (row(world, job_id).status, row(world, job_id).run) == (JobStatus.WAITING, 1)


def review(world: World) -> tuple[str, str]:
    """A job that waits for an approval here, and the digest of its document."""
    job_id = world.add_job(party=HOST, initiator=GUEST, f_approval="pending")
    unit = world.services.use_cases.approvals._units
    binding = unit.carry_out(lambda one: one.binding(job_id))
    assert binding is not None
    return job_id, binding.digest


def test_a_job_is_approved_by_its_digest(world: World) -> None:
    job_id, digest = review(world)
    browser = browser_of(world, APPROVE)
    page = browser.page(f"/board/jobs/{job_id}")
    assert digest in page.readable
    assert set(page.forms()) >= {f"/board/jobs/{job_id}/approve", f"/board/jobs/{job_id}/reject"}
    other = browser.send(f"/board/jobs/{job_id}/approve", revision="0", digest="0" * 64)
    assert other.status_code == 409
    assert "another document" in other.text
    assert browser.send(f"/board/jobs/{job_id}/approve").status_code == 400
    assert act(browser, job_id, "approve", revision="0", digest=digest) == f"Job {job_id}: approved."
    consent = row(world, job_id).consent
    assert consent is not None
    assert consent.by == "has-8"
    assert "Needs review (0)" in browser.page("/board/").readable


def test_a_review_shows_the_difference_from_the_last_approved_document(world: World) -> None:
    def conf(**parameters: object) -> Document:
        common = {"toy_0": parameters}
        return replace(TOY, runtime_conf={**TOY_CONF, "component_parameters": {"common": common}}, name="weekly")

    browser = browser_of(world, APPROVE)
    first = world.add_job(party=HOST, initiator=GUEST, document=conf(data_num=10, seed=1), f_approval="pending",
                          f_name="weekly")  # fmt: skip
    assert "has approved no job of party 9999" in browser.page(f"/board/jobs/{first}").readable
    world.write("t_job", {"f_job_id": first}, f_approval="approved", f_approval_by="ann", f_approval_time=START,
                f_approval_digest=digest_of(conf(data_num=10, seed=1)))  # fmt: skip
    second = world.add_job(party=HOST, initiator=GUEST, document=conf(data_num=20, rows="<b>"), f_approval="pending",
                           f_name="weekly")  # fmt: skip
    page = browser.page(f"/board/jobs/{second}")
    assert f"with this name is {first} , by ann" in page.readable
    assert "3 differences from that document" in page.readable
    place = "runtime_conf.component_parameters.common.toy_0"
    for text in (f"changed {place}.data_num 10 20", f"added {place}.rows", f"removed {place}.seed 1"):
        assert text in page.readable, text
    assert "<b>" not in page.text
    assert "another one than was approved" not in page.readable
    world.write("t_job", {"f_job_id": first}, f_approval_digest="0" * 64, f_name="other")
    page = browser.page(f"/board/jobs/{second}")
    assert f"with the same tasks is {first}" in page.readable
    assert "Its document is another one than was approved then." in page.readable


def test_a_decision_leads_to_the_next_review(world: World) -> None:
    (first, one), (second, two), (third, three) = (review(world) for _ in range(3))
    browser = browser_of(world, APPROVE)

    def decide(job_id: str, digest: str) -> str:
        response = browser.send(f"/board/jobs/{job_id}/approve", revision="0", digest=digest, next="yes")
        return response.headers["Location"]

    assert decide(second, two) == f"/board/jobs/{third}"
    assert f"Job {second}: approved." in browser.page(f"/board/jobs/{third}").readable
    assert decide(third, three) == f"/board/jobs/{first}"
    assert decide(first, one) == "/board/approvals"


def test_who_has_approved_as_the_first_of_two_is_not_led_to_that_job_again(world: World) -> None:
    (first, one), (second, _) = review(world), review(world)
    object.__setattr__(world.services.context, "approval", ApprovalRule(required=True, people=2))
    browser, other = browser_of(world, APPROVE), browser_of(world, APPROVE | READ)
    approve = {"revision": "0", "digest": one, "next": "yes"}
    assert browser.send(f"/board/jobs/{first}/approve", **approve).headers["Location"] == f"/board/jobs/{second}"
    rejected = {"reason": "no", "next": "yes"}
    assert browser.send(f"/board/jobs/{second}/reject", **rejected).headers["Location"] == "/board/approvals"
    third, _ = review(world)
    assert other.send(f"/board/jobs/{third}/reject", **rejected).headers["Location"] == f"/board/jobs/{first}"


def test_who_may_not_approve_sees_the_list_of_reviews_alone(world: World) -> None:
    job_id, _ = review(world)
    for roles, count in ((READ, 0), (APPROVE, 1)):
        page = browser_of(world, roles).page("/board/approvals")
        assert job_id in page.readable
        assert sum(one.attributes.get("class") == "button" for one in page.tags) == count


def test_a_job_is_rejected_with_a_reason(world: World) -> None:
    job_id, _ = review(world)
    browser = browser_of(world, APPROVE)
    refused = browser.send(f"/board/jobs/{job_id}/reject", reason=" ")
    assert (refused.status_code, "reason: is empty" in refused.text) == (400, True)
    assert "rejected" in act(browser, job_id, "reject", reason="not with these columns")


@pytest.mark.parametrize("name", ["stop", "hold", "release", "rerun", "priority", "approve", "reject"])
def test_a_reader_has_no_buttons_and_can_do_nothing(world: World, name: str) -> None:
    browser, job_id = browser_of(world, READ), world.add_job()
    assert browser.page(f"/board/jobs/{job_id}").forms() == ["/board/sign-out"]
    response = browser.send(f"/board/jobs/{job_id}/{name}", reason="x")
    assert response.status_code == 403
    assert "has no client role for this" in response.text
    assert not row(world, job_id).cancel_requested


@pytest.mark.parametrize("roles", [READ, AUDIT])
def test_roles_that_only_read_see_no_buttons(world: World, roles: ClientRole) -> None:
    """What a form asks by GET changes nothing; auditors also have the record checked, which changes nothing either."""
    job_id = world.add_job(status=JobStatus.FAILED)
    world.add_task(job_id)
    review(world)
    browser = browser_of(world, roles)
    pages = ["", "jobs", f"jobs/{job_id}", f"jobs/{job_id}/history", f"jobs/{job_id}/tasks/toy_0", "queue", "approvals",
             "data"]  # fmt: skip
    for path in [*pages, *(["audit"] if roles == AUDIT else [])]:
        page = browser.page(f"/board/{path}")
        sent = {str(one.attributes["action"]) for one in page.tags
                if one.name == "form" and one.attributes.get("method") == "post"}  # fmt: skip
        checks = {"/board/audit/verify", "/board/audit/reconcile"} if path == "audit" else set()
        assert "/board/sign-out" in sent <= {"/board/sign-out", *checks}, path
        assert not [one for one in page.tags if one.attributes.get("class") == "button"], path
        names = re.findall("<button[^>]*>([^<]+)</button>", page.text)
        of_record = {"Verify all logs", "Compare both logs"} if checks else set()
        assert set(names) <= {"Sign out", "Show", "Count all that fit"} | of_record, path
    assert browser.get("/board/audit").status_code == (200 if roles == AUDIT else 403)


@pytest.mark.parametrize(("name", "form", "status"), [
    ("priority", {"priority": "high"}, 400), ("priority", {"priority": "9" * 30}, 400),
    ("priority", {"priority": "0000000009999999999"}, 400), ("priority", {"priority": "1" * 5_000}, 400),
    ("hold", {"reason": ""}, 400), ("hold", {"reason": "x" * 501}, 400), ("hold", {"reason": "a\nb"}, 400),
    ("release", {}, 409), ("delete", {}, 404), ("rerun", {}, 409),
])  # fmt: skip
def test_what_is_not_possible_is_said_and_changes_nothing(
    world: World, name: str, form: dict[str, str], status: int
) -> None:
    job_id = world.add_job()
    before = row(world, job_id)
    assert browser_of(world, SUBMIT | OPERATE).send(f"/board/jobs/{job_id}/{name}", **form).status_code == status
    assert row(world, job_id) == before


def test_a_job_that_is_not_known_cannot_be_stopped(world: World) -> None:
    browser = browser_of(world, SUBMIT)
    assert browser.send("/board/jobs/20260101120000999999/stop").status_code == 404
    assert browser.send("/board/jobs/x/stop").status_code == 400
