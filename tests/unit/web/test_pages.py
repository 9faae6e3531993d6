"""The pages: what they say, what they cost, and that nothing on them is inline or from elsewhere."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.access.client_roles import METRICS, SUBMIT
from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Answer
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.documents import digest_of
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.store.values import Document
from fate_flow.store.views import board, board_views, job_search
from fate_flow.store.views.board import MOST_COUNTED, PAGE
from fate_flow.web.jobs.graph import MOST_DRAWN
from fate_flow.web.sessions import Sessions
from fate_flow.web.static_files import STATIC
from tests.kit.api.client_world import GUEST, HOST, START, TOY, TOY_CONF, World, make_world
from tests.kit.api.recorded_world import JOB as RECORDED
from tests.kit.api.recorded_world import recorded_world, their_file
from tests.kit.api.running_jobs import copy_of_a_job, trouble
from tests.kit.key_lists import ROOT, signed_list
from tests.kit.site_keys import private_key
from tests.kit.web.browser import Browser, Page, count_on, counted_queries, of_view
from tests.kit.web.filled_task import add_filled_task
from tests.kit.web.many_tasks import add_restarting_job, chain

MOST_QUERIES, MOST_REQUESTS = 10, 3
OF_A_LOG = 12                 # queries that verifying asks for each log, and comparing for the one that it reads
EVIL = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"
POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "data:",
    "connect-src": "'self'", "form-action": "'self'", "frame-ancestors": "'none'", "base-uri": "'none'",
    "require-trusted-types-for": "'script'", "trusted-types": "board board-events",
}  # fmt: skip


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


@pytest.fixture
def jobs(browser: Browser) -> Mapping[str, str]:
    """One job of each kind, with a name that would be a script."""
    world: World = browser.world
    waiting = world.add_job(f_name=EVIL, f_lacks="room", f_wait_reason="host 10000 has 1 of 8 cores free, 2 asked")
    world.add_seats(waiting)
    passer = world.add_job(status=JobStatus.SUCCESS, f_name=f"passed {EVIL}", f_end_time=1, f_reason="done")
    world.write("t_job", {"f_job_id": waiting}, f_passes=11, f_passers=json.dumps([passer, "20260101000000000009"]))
    running = world.add_job(status=JobStatus.RUNNING, f_claim="c", f_resource_in_use=True, f_start_time=START)
    world.add_task(running, f_start_time=START)
    world.add_task(running, party=HOST)
    failed = world.add_job(
        status=JobStatus.FAILED, f_message=f"toy_0 failed on host 10000: {EVIL}", f_caused_by="host 10000",
    )  # fmt: skip
    review = world.add_job(party=HOST, initiator=GUEST, f_approval="pending")
    before = world.add_job(party=HOST, initiator=GUEST)
    world.write("t_job", {"f_job_id": before}, f_approval="approved", f_approval_by="ann", f_status="success",
                f_approval_digest=digest_of(TOY), f_end_time=START, f_reason="done")  # fmt: skip
    bind(world, review)
    return {
        "waiting": waiting, "running": running, "failed": failed, "review": review, "filled": add_filled_task(world),
    }


def bind(world: World, job_id: str) -> None:
    """As every job is that came by a command."""
    with world.store.transaction() as tx:
        assert tx.bind(JobBinding(job_id, GUEST, frozenset({GUEST, HOST}), digest_of(TOY)))


def paths(jobs: Mapping[str, str]) -> list[str]:
    of_jobs = [f"/board/jobs/{one}" for one in jobs.values()]
    search = "/board/jobs?text=x&party=10000&status=failed"
    lists = ["/board/", "/board/jobs", search, "/board/queue", "/board/approvals"]
    task = f"/board/jobs/{jobs['filled']}/tasks/toy_0"
    of_host = f"/board/jobs/{jobs['running']}/tasks/toy_0?party=host-10000"
    log = f"{task}/log?worker=0&attempt=0"
    of_task = [task, f"{task}?version=0&workers=0_0_w", of_host, f"{task}/metrics", f"{task}/model?output=model"]
    of_task += [log, f"{log}&at=end", f"{log}&find=99", f"{task}/usage", f"{task}/usage?version=0&workers=0_0_w"]
    table = f"/board/data/table?namespace=output_{jobs['filled']}&name=made"
    of_task += ["/board/data", "/board/data?origin=output", table, "/board/audit", "/board/audit?kind=act&party=10000"]
    of_task += [f"{task}/log?stream=INFO", "/board/jobs?component=toy_0&person=ann"]
    return [*lists, *of_jobs, *(f"{one}/history" for one in of_jobs), *of_task]


# ---------------------------------------------------------------------- safe


def test_nothing_is_inline_or_from_elsewhere(browser: Browser, jobs: Mapping[str, str]) -> None:
    for path in [*paths(jobs), "/board/nothing"]:
        check_nothing_inline(path, browser.get(path))


def test_nothing_is_inline_on_the_pages_of_the_record_and_of_the_sign_in(tmp_path: Path) -> None:
    browser = Browser(recorded_world(tmp_path))
    for name, (ask, _) in asks_of_record(browser, tmp_path).items():
        check_nothing_inline(name, ask())
    (tmp_path / "signed").mkdir()
    signed = Browser(make_world(tmp_path / "signed", client_keys=ClientKeys("the-app", "the-secret")))
    check_nothing_inline("sign-in", signed.get("/board/sign-in?next=/board/jobs"))
    refused = signed.sign_in(ClientKeys(f"{EVIL}", "x"), target=f"/board/{EVIL}")
    check_nothing_inline("refused sign-in", refused)


def check_nothing_inline(path: str, response: TestResponse) -> None:
    assert response.status_code in (200, 403, 404), response.text
    page = Page(response.text)
    assert page.inside_scripts == "", path
    assert [one.name for one in page.tags].count("main") == 1, path
    for tag in page.tags:
        assert tag.name not in ("style", "base", "iframe", "object", "embed", "img"), path
        names = {name for name in tag.attributes if name == "style" or name.startswith(("on", "hx-"))}
        assert names == set(), (path, tag)
        if tag.attributes.get("rel") == "icon":
            assert str(tag.attributes["href"]).startswith("data:image/svg+xml,"), (path, tag)
            continue
        for name in ("src", "href", "action"):
            assert str(tag.attributes.get(name, "/board/")).startswith(("/board/", "#")), (path, tag)
    assert EVIL not in response.text
    given = response.headers["Content-Security-Policy"].split(";")
    assert dict(part.strip().partition(" ")[::2] for part in given) == POLICY


def test_no_script_of_ours_makes_code_or_markup_of_text() -> None:
    bad = r"\beval\b|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|setAttribute\(\"(on|style)"
    scripts = list(STATIC.glob("*.js"))
    assert len(scripts) >= 3
    assert {path.name: re.findall(bad, path.read_text(encoding="utf-8")) for path in scripts} == {
        path.name: [] for path in scripts
    }


def test_every_page_has_a_title_one_heading_and_its_command(browser: Browser, jobs: Mapping[str, str]) -> None:
    for path in paths(jobs):
        page = browser.page(path)
        count = [one.name for one in page.tags].count
        bars = sum(one.name == "rect" and "x" in one.attributes and one.attributes["x"] != "1" for one in page.tags)
        titles = 1 + (bars if "/history" in path else 0)
        assert (count("h1"), count("title"), count("main")) == (1, titles, 1), path
        ids = [one.attributes["id"] for one in page.tags if "id" in one.attributes]
        assert len(ids) == len(set(ids)), path
        assert re.search("The same by command: (fate_)?flow ", page.readable), path


# ---------------------------------------------------------------------- cheap


def test_a_page_asks_few_queries(browser: Browser, jobs: Mapping[str, str]) -> None:
    restarting = {"restarting": add_restarting_job(browser.world, 20)}
    metrics = f"/board/jobs/{jobs['filled']}/tasks/toy_0/metrics?page=2"
    counts = ["/board/jobs/count", "/board/jobs/count?text=x&party=10000"]
    counts += ["/board/data/count?origin=output", "/board/audit/count?kind=act&person=ann", "/board/audit/count"]
    timeline = f"/board/jobs/{restarting['restarting']}/history?tasks=1"
    for path in [*paths({**jobs, **restarting}), metrics, timeline, *counts]:
        with counted_queries(browser.world) as queries:
            assert browser.get(path).status_code == 200
        assert len(of_view(queries)) <= MOST_QUERIES, (path, queries)


def test_a_page_of_the_record_asks_few_queries(tmp_path: Path) -> None:
    """Verifying reads each of the two logs as a whole, and comparing reads one: so many for each, and one more."""
    browser = Browser(recorded_world(tmp_path))
    for name, (ask, most) in asks_of_record(browser, tmp_path).items():
        with counted_queries(browser.world) as queries:
            response = ask()
        assert response.status_code == 200, response.text
        assert 1 <= len(of_view(queries)) <= most, (name, queries)


def asks_of_record(
    browser: Browser, tmp_path: Path
) -> Mapping[str, tuple[Callable[[], TestResponse], int]]:
    """The pages about the record of a job and about all of it, and how many queries each may ask."""
    proof = their_file(browser.world, tmp_path / "theirs", Answer(0, is_recorded=True))
    found = re.search(r'name="form_token" value="([^"]+)"', browser.get("/board/audit").text)
    assert found is not None
    token = {"form_token": found[1]}
    form = {**token, "party": "10000", "file": (io.BytesIO(proof.encode()), "with.proof")}
    return {
        "record": (lambda: browser.get(f"/board/jobs/{RECORDED}/record"), MOST_QUERIES),
        "record, continued": (lambda: browser.get(f"/board/jobs/{RECORDED}/record?from=1"), MOST_QUERIES),
        "verify": (lambda: browser.client.post("/board/audit/verify", data=token), 1 + 2 * OF_A_LOG),
        "reconcile": (lambda: browser.client.post("/board/audit/reconcile", data=form), 1 + OF_A_LOG),
    }


def test_a_command_about_many_restarting_tasks_asks_few_queries(browser: Browser) -> None:
    job_id = add_restarting_job(browser.world, 20)
    with counted_queries(browser.world) as queries:
        found = browser.world.ask("job/explain", {"job_id": job_id})["data"]
    assert len(of_view(queries)) <= MOST_QUERIES + 1, queries
    assert [one["last_version"]["message"] for one in found["tasks"]] == ["out of memory"] * 20


def test_a_view_costs_few_requests(browser: Browser, jobs: Mapping[str, str]) -> None:
    """The first one: the page, a style and a script, which the browser keeps. The icon is in the page."""
    for path in (*paths(jobs), "/board/nothing"):
        page = browser.page(path, 404 if path == "/board/nothing" else 200)
        files = [str(one.attributes.get("src") or one.attributes.get("href"))
                 for one in page.tags if one.name in ("script", "link", "img")]  # fmt: skip
        loaded = [one for one in files if not one.startswith("data:image/svg+xml,")]
        assert (len(files), 1 + len(loaded)) == (3, MOST_REQUESTS), (path, files)
        for file in loaded:
            assert "immutable" in browser.get(file).headers["Cache-Control"], (path, file)


def test_a_list_reads_no_documents_and_counts_no_history(browser: Browser, jobs: Mapping[str, str]) -> None:
    unbound = browser.world.add_job(party=HOST, initiator=GUEST, f_approval="pending")
    for path in ("/board/", "/board/jobs", "/board/queue", "/board/approvals", "/board/data", "/board/audit"):
        with counted_queries(browser.world) as queries:
            assert browser.get(path).status_code == 200
        assert not re.search(r"f_dsl|f_runtime_conf|f_component_parameters", " ".join(queries)), path
        for one in queries:
            is_bounded = "f_approval" in one or "f_status" in one or f"LIMIT {MOST_COUNTED + 1}" in one
            assert "COUNT(" not in one or is_bounded, (path, one)
    assert re.search(f"review-{unbound}.*its digest is on the page of the job", browser.get("/board/approvals").text)
    assert digest_of(TOY) in browser.page(f"/board/jobs/{unbound}").readable


def test_a_page_that_has_not_changed_is_not_sent_again(browser: Browser, jobs: Mapping[str, str]) -> None:
    for path in paths(jobs):
        first = browser.get(path)
        again = browser.get(path, **{"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b""), path
    tag = browser.get("/board/jobs").headers["ETag"]
    browser.world.add_job()
    assert browser.get("/board/jobs", **{"If-None-Match": tag}).status_code == 200


def test_files_are_kept_for_ever_under_their_digest(browser: Browser) -> None:
    page = browser.page("/board/")
    [style] = [str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "stylesheet"]
    response = browser.get(style)
    assert response.mimetype == "text/css"
    assert "immutable" in response.headers["Cache-Control"]
    other = browser.get(f"{style[:-1]}x")
    assert (other.status_code, other.headers["Cache-Control"]) == (200, "no-cache"), "a page of another release asks"
    assert browser.get("/board/static/../routes.py").status_code == 404
    assert browser.get("/board/static/lib/libraries.txt").status_code == 200


# ---------------------------------------------------------------------- lists


def test_the_list_goes_on_from_its_last_row(browser: Browser) -> None:
    known = [browser.world.add_job() for _ in range(PAGE + 3)][::-1]
    first = browser.page("/board/jobs")
    older = next(str(one.attributes["href"]) for one in first.tags if one.attributes.get("rel") == "next")
    newer_job = browser.world.add_job()
    second = browser.page(older)
    assert _listed(first) == known[:PAGE]
    assert _listed(second) == known[PAGE:]
    assert newer_job not in second.text
    assert not [one for one in second.tags if one.attributes.get("rel") == "next"]


def test_no_list_is_cut_without_its_total(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(PAGE + 3):
        browser.world.add_job(status=JobStatus.FAILED if number % 3 else JobStatus.WAITING)
    assert f"{PAGE} of {PAGE + 3} jobs, newest first; there are older ones" in browser.page("/board/jobs").readable
    assert f"{2 * (PAGE + 3) // 3} jobs, newest first" in browser.page("/board/jobs?status=failed").readable
    monkeypatch.setattr(board, "MOST_COUNTED", PAGE + 1)
    monkeypatch.setattr(job_search, "COUNTED_AT_ONCE", 20)
    monkeypatch.setattr(board, "MOST_SEARCHED", 25)
    page = browser.page("/board/jobs?before=2030-01-01")
    assert f"{PAGE} of more than {PAGE + 1} jobs" in page.readable
    assert count_on(browser, page) == [13, 20, 20]
    page = browser.page("/board/jobs?party=10000")
    assert "25 jobs, newest first; there are older ones" in page.readable
    assert "has looked at 25 jobs. Older ones may fit, too." in page.readable
    assert count_on(browser, page) == [3, 25, 25]


def _listed(page: Page) -> list[str]:
    ids = (str(one.attributes.get("id", "")) for one in page.tags if one.name == "tr")
    return [one.split("-")[1] for one in ids if one.startswith("job-")]


def test_the_overview_says_what_runs_waits_and_failed(browser: Browser, jobs: Mapping[str, str]) -> None:
    with browser.world.store.transaction() as tx:
        tx.note_trouble(PeerTrouble("10000", silent_since=1, silence="connection refused"))
    readable = browser.page("/board/").readable
    for text in (
        "1 running", "2 waiting", "host 10000 has 1 of 8 cores free, 2 asked; 1st in the queue",
        "toy_0 failed on host 10000", "connection refused", "Needs review (1)", "not known while it does not answer",
    ):  # fmt: skip
        assert text in readable, text


def test_the_overview_of_a_host_has_the_jobs_that_wait_at_their_initiators(browser: Browser) -> None:
    world = browser.world
    asked, queued = (world.add_job(party=HOST, initiator=GUEST) for _ in range(2))
    world.write("t_job", {"f_job_id": asked}, f_approval="pending")
    for path in ("/board/", "/board/jobs?status=waiting"):
        page = browser.page(path)
        for text in ("waits for an approval of this party", "guest 9999 decides"):
            assert text in page.readable, path
        assert asked in page.text
        assert queued in page.text
    overview = browser.page("/board/")
    assert "No job of this party waits." in overview.readable
    assert overview.text.index(asked) < overview.text.index(queued), "the oldest first"
    with world.store.transaction() as tx:
        tx.note_trouble(PeerTrouble(GUEST.party_id, silent_since=1, silence="connection refused"))
    for path in ("/board/", "/board/jobs?status=waiting"):
        readable = browser.page(path).readable
        assert "guest 9999 has not answered for 0 s (connection refused)" in readable
        assert "guest 9999 decides" not in readable
    assert "The operators of party 9999: guest 9999 has not answered" in browser.page(f"/board/jobs/{queued}").readable
    for _ in range(9):
        world.add_job(party=HOST, initiator=GUEST)
    assert "8 of 11 waiting jobs of other parties" in browser.page("/board/").readable


def test_a_page_that_says_what_is_not_possible_leads_to_all_views(
    browser: Browser, jobs: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    for path, status in (("/board/nothing", 404), ("/board/jobs/20260101000000000001", 404),
                         ("/board/jobs?person=%00", 400)):  # fmt: skip
        page = browser.page(path, status)
        for view in ("Overview", "Jobs", "Queue", "Data", "Needs review (1)"):
            assert view in page.readable, (path, view)
    monkeypatch.setattr(board_views, "count_reviews", failing)
    assert "Needs review no keys needed" in " ".join(browser.page("/board/nothing", 404).readable.split())


def test_who_may_see_no_jobs_is_led_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = ClientKeys("the-app", "the-secret")
    browser = Browser(make_world(tmp_path, client_keys=owner))
    browser.world.add_job(party=HOST, initiator=GUEST, f_approval="pending")
    browser.sign_in(add_client(browser.world.home, "anna", SUBMIT, 1))
    assert "Needs review (1)" in browser.page("/board/nothing", 404).readable
    of = Sessions.of
    monkeypatch.setattr(Sessions, "of", lambda *given: replace(of(*given), roles=METRICS))
    page = browser.page("/board/", 403)
    assert "no client role that sees jobs" in page.readable
    assert "Needs review" not in page.readable


def failing() -> int:
    raise StorageFailed("no database")


def test_the_overview_says_which_key_of_a_partner_counts(browser: Browser, jobs: Mapping[str, str]) -> None:
    listed, alone = private_key(1), private_key(2)
    signed = signed_list("10000", 1, listed)
    keys = PartyKeys("10000", 1, ROOT.public.key_id, signed, 1, KeyState.JOINED, "ann", 1)
    with browser.world.store.transaction() as tx:
        assert tx.add_site_key(SiteKey("10000", alone.public.key_id, alone.public.pem), 1)
        tx.note_trouble(PeerTrouble("10000", silent_since=1, silence="connection refused"))
    assert f"message {alone.public.key_id[:16]}" in browser.page("/board/").readable
    with browser.world.store.transaction() as tx:
        assert tx.add_party_keys(keys)
    assert f"message {listed.public.key_id[:16]}" in browser.page("/board/").readable
    for old, state in ((KeyState.JOINED, KeyState.REVOKED), (KeyState.REVOKED, KeyState.REMOVED)):
        with browser.world.store.transaction() as tx:
            assert tx.move_party_keys("10000", old, state, "ann", 2)
        revoked = "revoked: none of its keys counts any more" in browser.page("/board/").readable
        assert revoked is (state is KeyState.REVOKED)
    assert f"message {alone.public.key_id[:16]}" in browser.page("/board/").readable


def test_a_partner_that_is_not_asked_any_more_is_good_no_longer(browser: Browser) -> None:
    world = browser.world
    now = world.services.context.clock()
    rows = {}
    for age in (0, 3 * 60_000):
        state = {"circuit": "closed", "round_trip_ms": 3, "back_ms": 3, "answered_at": now - age}
        world.write_peers(json.dumps({"10000": state}))
        page = browser.page("/board/")
        classes = [one.attributes.get("class", "") for one in page.tags]
        rows[age] = [one for one in classes if one.startswith("mark is-")]
        text = "answered 3 min ago, not asked since; flow party list asks it" if age else "answers within 5 ms"
        assert text in page.readable
    assert rows == {0: ["mark is-good"] * 2, 3 * 60_000: ["mark is-unknown"] * 2}


def test_an_idle_server_has_an_overview_too(browser: Browser) -> None:
    readable = browser.page("/board/").readable
    for text in ("No job runs.", "No job of this party waits.", "No job has failed.", "Needs review (0)"):
        assert text in readable


def test_the_queue_has_its_order_and_what_each_job_waits_for(browser: Browser, jobs: Mapping[str, str]) -> None:
    behind = browser.world.add_job(f_held=True, f_hold_message="until Monday", f_hold_by="anna")
    page = browser.page("/board/queue")
    for text in ("2 waiting jobs", "free cores", "until Monday"):
        assert text in page.readable
    assert page.text.index(jobs["waiting"]) < page.text.index(behind)
    passed = f"11 times, last by passed {EVIL}, 20260101000000000009"
    for path in ("/board/queue", f"/board/jobs/{jobs['waiting']}"):
        text = unescape(re.sub(r"</?a\b[^>]*>", "", browser.get(path).text))
        assert passed in text, path


def test_approvals_lead_to_the_oldest(browser: Browser, jobs: Mapping[str, str]) -> None:
    page = browser.page("/board/approvals")
    assert "1 job of other parties" in page.readable
    [button] = [one for one in page.tags if one.attributes.get("class") == "button"]
    assert button.attributes["href"] == f"/board/jobs/{jobs['review']}"


# ---------------------------------------------------------------------- one job


def test_a_job_shows_its_whole_graph_before_anything_has_begun(browser: Browser) -> None:
    page = browser.page(f"/board/jobs/{browser.world.add_job(document=chain(3))}")
    rows = [str(one.attributes["id"]) for one in page.tags if str(one.attributes.get("id", "")).startswith("task-")]
    assert rows == ["task-toy_0", "task-toy_1", "task-toy_2"]
    [graph] = [one for one in page.tags if one.attributes.get("id") == "graph"]
    nodes = json.loads(str(graph.attributes["data-nodes"]))
    assert [(one["name"], one["after"], one["status"]) for one in nodes] == [
        ("toy_0", [], ""), ("toy_1", ["toy_0"], ""), ("toy_2", ["toy_1"], ""),
    ]  # fmt: skip


def test_a_graph_of_many_tasks_is_folded_and_says_so_in_a_table(browser: Browser) -> None:
    job_id = browser.world.add_job(document=chain(MOST_DRAWN + 1))
    page = browser.page(f"/board/jobs/{job_id}")
    [graph] = [one for one in page.tags if one.attributes.get("id") == "graph"]
    nodes = json.loads(str(graph.attributes["data-nodes"]))
    assert 1 < len(nodes) <= MOST_DRAWN
    ids = {one.attributes.get("id") for one in page.tags}
    assert {one["row"] for one in nodes} | {"all-tasks", f"task-toy_{MOST_DRAWN - 1}"} <= ids
    assert f"/board/jobs/{job_id}?from=toy_{MOST_DRAWN - 1}" in page.text          # its table goes on there
    assert f"{len(nodes)} groups of {MOST_DRAWN + 1} tasks" in page.readable


def test_the_failing_party_has_the_first_word(browser: Browser, jobs: Mapping[str, str]) -> None:
    readable = browser.page(f"/board/jobs/{jobs['failed']}").readable
    assert readable.index("toy_0 failed on host 10000") < readable.index("Job id")
    assert "Who has to act: The people of host 10000: the cause is there." in readable


def test_a_job_whose_initiator_is_silent_says_who_has_to_act(browser: Browser) -> None:
    job_id = copy_of_a_job(browser.world)
    assert "Who has to act" not in browser.page(f"/board/jobs/{job_id}").readable
    trouble(browser.world, silent_since=1_000, silence="connection refused")
    text = "host 10000 has not answered for 7 s (connection refused)"
    assert f"Who has to act: The operators of party 10000: {text}." in browser.page(f"/board/jobs/{job_id}").readable
    said = browser.world.ask("job/explain", {"job_id": job_id, "role": "guest"})["data"]
    assert (said["initiator_trouble"], said["parties"][0]["trouble"]) == (text, None)


def test_a_job_says_why_it_waits_and_who_has_to_act(browser: Browser, jobs: Mapping[str, str]) -> None:
    readable = browser.page(f"/board/jobs/{jobs['waiting']}").readable
    assert readable.index("host 10000 has 1 of 8 cores free, 2 asked") < readable.index("Job id")
    assert "Nobody: it starts by itself when the cores are free." in readable
    assert "unschedulable" not in readable.lower()


def test_a_job_on_several_engines_says_how_much_of_each_it_asks_for(browser: Browser) -> None:
    job_id = browser.world.add_job(f_asked_elsewhere='[["slurm", 3, 0, 0]]')
    assert "4 (1 on local, 3 on slurm)" in browser.page(f"/board/jobs/{job_id}").readable


def test_a_job_says_how_much_memory_and_how_many_gpus_it_asks_for(browser: Browser) -> None:
    conf = {**TOY_CONF, "job_parameters": {"common": {"task_memory": 512, "task_gpus": 1, "task_parallelism": 1}}}
    job_id = browser.world.add_job(f_asked_memory=700, f_asked_gpus=2, document=Document(TOY.dsl, conf, {}))
    browser.world.add_seats(job_id)
    readable = browser.page(f"/board/jobs/{job_id}").readable
    assert "700 MB 2 " in readable
    assert "host 10000 joined 2 1 512 MB 1 has 1 of 8 cores free" in readable
    assert "Memory and GPUs of other parties are what the job would ask for here" in readable
    other = browser.world.add_job(f_asked_memory=100, f_asked_gpus=1, f_asked_elsewhere='[["slurm", 3, 64, 1]]')
    readable = browser.page(f"/board/jobs/{other}").readable
    assert "100 MB (36 on local, 64 on slurm) 1 (0 on local, 1 on slurm)" in readable


def test_parameters_show_what_differs_between_parties(browser: Browser) -> None:
    of_host = {"host": {"0": {"toy_0": {"data_num": 20}}}}
    conf = {**TOY_CONF, "component_parameters": {"common": {"toy_0": {"data_num": 10}}, "role": of_host}}
    document = Document({"components": {"toy_0": {"module": "SecureAddExample"}}}, conf, {})
    page = browser.page(f"/board/jobs/{browser.world.add_job(document=document)}")
    assert [one.attributes.get("class") for one in page.tags if one.name == "tr"].count("differs") == 2


def test_a_job_that_is_not_known_is_said_so(browser: Browser) -> None:
    assert "is not known to party 9999" in browser.page("/board/jobs/20260101120000999999", 404).readable
    assert browser.page("/board/jobs/20260101120000999999/history", 404)
    assert browser.page("/board/jobs/x", 400)
