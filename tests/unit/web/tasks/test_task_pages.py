"""The pages of a task: attempts that keep their own, logs that are read in pieces, metrics, and who may see what."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from fate_flow.core.access.client_roles import AUDIT, READ, SUBMIT, ClientRole
from fate_flow.core.model.job import Answer, TaskKey
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.store.views import board_task
from fate_flow.web.logs.sources import MOST_HITS, PIECE, WorkerLog
from tests.kit.api.client_world import GUEST, HOST, START, World, make_world
from tests.kit.web.browser import Browser, Page, counted_queries, of_view
from tests.kit.web.filled_task import LOG, add_filled_task, add_worker

OWNER = ClientKeys("the-app", "the-secret")


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


@pytest.fixture
def task(browser: Browser) -> str:
    """The address of a task."""
    return f"/board/jobs/{add_filled_task(browser.world)}/tasks/toy_0"


def links(page: Page) -> list[str]:
    return [str(one.attributes["href"]) for one in page.tags if one.name == "a"]


# ---------------------------------------------------------------------- the task


def test_each_attempt_keeps_its_own(browser: Browser, task: str) -> None:
    newest = browser.page(task)
    assert "Workers of attempt 2 at guest 9999" in newest.readable
    assert "120" in newest.readable
    assert re.search(r"model credit 3 json_model \d+ [0-9a-f]{64}", newest.readable)
    older = browser.page(f"{task}?party=guest-9999&version=0")
    assert "out of memory at host 10000 (cause: host 10000)" in older.readable
    assert "2 processes, of which 2 did not end well" in older.readable
    assert "signal 9" in older.readable
    assert "It has published no tables, files or models." in older.readable
    assert "3 of" not in browser.page(f"{task}/metrics?version=1").readable
    old_metrics = browser.page(f"{task}/metrics?version=0").readable
    assert "3 rows" in old_metrics
    assert "evaluation" not in old_metrics


def test_older_attempts_are_on_further_pages(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_task, "MOST_SHARES", 5)
    job_id = browser.world.add_job(status=JobStatus.RUNNING, f_claim="c", f_resource_in_use=True, f_start_time=START)
    for version in range(6):
        for party in (GUEST, HOST):
            browser.world.add_task(job_id, party=party, version=version)
    task, seen = f"/board/jobs/{job_id}/tasks/toy_0", set[str]()
    page, pages = browser.page(task), 1
    assert "5 shares of attempts, newest first; 12 in all" in page.readable
    while True:
        seen |= {one for one in (str(tag.attributes.get("id", "")) for tag in page.tags) if one.startswith("share-")}
        older = [one for one in links(page) if "attempts=" in one]
        if not older:
            break
        page, pages = browser.page(older[0]), pages + 1
        assert task in links(page), "the way back to the newest"
    assert (len(seen), pages) == (12, 3)
    assert "Workers of attempt 1 at guest 9999" in browser.page(f"{task}?party=guest-9999&version=0").readable
    assert "There is no attempt up to 1." not in browser.page(f"{task}?attempts=0").readable


def test_the_page_of_a_job_leads_to_its_tasks(browser: Browser, task: str) -> None:
    assert task in links(browser.page(task.rpartition("/tasks")[0]))
    waiting = browser.world.add_job()
    assert "It has not begun. It runs at guest 9999, host 10000." in browser.page(
        f"/board/jobs/{waiting}/tasks/toy_0").readable
    assert "has no task other" in browser.page(f"/board/jobs/{waiting}/tasks/other", 404).readable
    assert "is not known to party" in browser.page("/board/jobs/20260101120000999999/tasks/toy_0", 404).readable


@pytest.mark.parametrize("query", [
    "party=x", "party=guest-x", "version=-1", "version=x", "attempts=x", "workers=0", "workers=9999999",
])  # fmt: skip
def test_an_odd_address_is_refused_by_its_name(browser: Browser, task: str, query: str) -> None:
    assert f"{query.partition('=')[0]}:" in browser.page(f"{task}?{query}", 400).readable


def test_a_task_of_2000_workers_costs_as_few_queries_as_any(browser: Browser) -> None:
    job_id = browser.world.add_job(status=JobStatus.RUNNING, f_start_time=1)
    browser.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=1)
    add_worker(browser.world, job_id, 0, 0)
    database = browser.world.store.database
    columns = [row[1] for row in database.execute_sql("PRAGMA table_info(t_worker)").fetchall()]
    changed = {"f_worker_id": "f_job_id || '-0-' || i", "f_slot": "i"}
    database.execute_sql(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) "
        f"INSERT INTO t_worker ({', '.join(columns)}) "
        f"SELECT {', '.join(changed.get(name, name) for name in columns)} FROM n, t_worker"
    )  # fmt: skip
    with counted_queries(browser.world) as queries:
        page = browser.page(f"/board/jobs/{job_id}/tasks/toy_0")
    assert "100 of 2000 processes" in page.readable
    assert len(of_view(queries)) <= 10, queries
    assert len(page.text) < 110_000


def test_a_gang_is_shown_in_pages_with_its_total(browser: Browser) -> None:
    job_id = browser.world.add_job(status=JobStatus.RUNNING, f_start_time=1)
    browser.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=1)
    for slot in range(102):
        add_worker(browser.world, job_id, 0, slot)
    first = browser.page(f"/board/jobs/{job_id}/tasks/toy_0")
    assert "100 of 102 processes" in first.readable
    add_worker(browser.world, job_id, 0, 102)
    second = browser.page(next(one for one in links(first) if "workers=" in one))
    assert re.findall(r'id="worker-\d+-0-(\d+)"', first.text + second.text) == [str(slot) for slot in range(103)]
    assert "3 of 103 processes, continued" in second.readable


# ---------------------------------------------------------------------- logs


def test_a_log_is_read_from_its_begin_in_pieces(browser: Browser, task: str) -> None:
    address, text = f"{task}/log", ""
    while address:
        page = browser.page(address)
        [pre] = [one for one in page.tags if one.name == "pre"]
        assert int(str(pre.attributes["data-next"])) - int(str(pre.attributes["data-at"])) <= PIECE
        text += page.text.partition('role="region" aria-label="The log"')[2].partition(">\n")[2].partition("</pre>")[0]
        following = [one for one in page.tags if one.attributes.get("rel") == "next"]
        address = str(following[0].attributes["href"]) if following else ""
    assert text == LOG
    assert "nothing more comes" in page.readable
    assert LOG[-100:] in browser.page(f"{task}/log?at=end").text
    assert browser.get(f"{task}/log/file").text == LOG


def test_a_log_is_text_and_nothing_else(browser: Browser, task: str) -> None:
    page = browser.page(f"{task}/log?stream=stderr&worker=0")
    assert page.inside_scripts == ""
    assert "&lt;script&gt;alert(1)" in page.text
    assert "it has begun" in browser.page(f"{task}/log?stream=INFO").readable
    response = browser.get(f"{task}/log/file?stream=stderr")
    assert response.mimetype == "text/plain"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Disposition"] == 'attachment; filename="toy_0-guest-9999-stderr.log"'


def test_the_log_of_a_component_is_read_from_the_begin_of_an_attempt(browser: Browser, task: str) -> None:
    job_id = task.split("/")[3]

    def line(ms: int, text: str) -> str:
        moment = datetime.fromtimestamp(ms // 1000).astimezone()
        return f"[INFO] [{moment:%Y-%m-%d %H:%M:%S},{ms % 1000:03}] [7:7] - a.py[line:1]: {text}\n"

    first = "".join(line(START + step, f"first {step}") + "a line without a time\n" for step in range(9_000))
    second = "".join(line(START + 10_000 + step, f"second {step}") for step in range(900))
    browser.world.add_log(job_id, "guest/9999/toy_0/INFO.log", first + second)
    assert "Log of the component, from attempt 2 on" in browser.page(task).readable
    page = browser.page(next(one for one in links(browser.page(task)) if "stream=INFO" in one))
    [pre] = [one for one in page.tags if one.name == "pre"]
    assert int(str(pre.attributes["data-at"])) == len(first)
    assert "second 0" in page.readable
    assert "first 8999" not in page.readable
    old = browser.page(f"{task}/log?stream=INFO&version=0&at=attempt")
    assert "first 0" in old.readable
    browser.world.add_log(job_id, "guest/9999/toy_0/INFO.log", first)
    page = browser.page(f"{task}/log?stream=INFO&version=1&at=attempt")
    assert f"Bytes {len(first)} to {len(first)}" in page.readable, "it has written nothing yet"


def test_a_search_has_the_number_of_all_lines(browser: Browser, task: str) -> None:
    page = browser.page(f"{task}/log?find=STEP%201")
    count = sum("step 1" in line for line in LOG.splitlines())
    assert count > MOST_HITS
    assert f"{count} lines with" in page.readable
    assert f"the first {MOST_HITS} are shown" in page.readable
    hits = [one for one in links(page) if "&at=" in one]
    assert len(hits) == MOST_HITS
    offset = int(parse_qs(hits[1])["at"][0])
    assert LOG.encode()[offset:].split(b"\n")[0].endswith(b"step 10 loss 0.0909")
    assert "0 lines with" in browser.page(f"{task}/log?find=nothing").readable


def test_a_search_in_a_long_log_goes_on(browser: Browser, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerLog, "most_searched", 100_000)
    address, count, pages = f"{task}/log?find=step", 0, 0
    while address:
        page = browser.page(address)
        found = re.search(r"(\d+) lines? with", page.readable)
        assert found is not None
        count, pages = count + int(found[1]), pages + 1
        following = [one for one in page.tags if one.attributes.get("rel") == "next"]
        address = str(following[0].attributes["href"]) if following else ""
    assert (count, pages) == (6_000, -(-len(LOG) // 100_000))


def test_a_log_that_grows_is_followed_with_validators(browser: Browser) -> None:
    job_id = browser.world.add_job(status=JobStatus.RUNNING, f_start_time=1)
    browser.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=1)
    path = add_worker(browser.world, job_id, 0, 0)
    path.write_text("one\n")
    address = f"/board/jobs/{job_id}/tasks/toy_0/log/piece?party=guest-9999&version=0&worker=0"
    first = browser.get(f"{address}&at=0")
    assert first.json == {"text": "one\n", "next": 4, "total": 4, "over": False}
    waits = browser.get(f"{address}&at=4")
    again = browser.get(f"{address}&at=4", **{"If-None-Match": waits.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    with path.open("a") as file:
        file.write("two\n")
    new = browser.get(f"{address}&at=4", **{"If-None-Match": waits.headers["ETag"]})
    assert (new.status_code, new.json["text"] if new.json else "") == (200, "two\n")


def test_a_log_that_is_not_there_is_said_so(browser: Browser, task: str) -> None:
    assert "has no worker 7" in browser.page(f"{task}/log?worker=7").readable
    assert "stream:" in browser.page(f"{task}/log?stream=odd", 400).readable
    assert browser.get(f"{task}/log/piece?worker=7").status_code == 404


def listed(*workers: int, count: int, following: int | None = None) -> Answer:
    """What a partner answers that lists its workers."""
    rows = [
        {"worker": one, "rank": one, "attempt": 1, "status": "exited", "reason": "worker_error", "message": f"<b>{one}",
         "exit_status": "signal 9", "started": START, "ended": START + 9} for one in workers
    ]  # fmt: skip
    return Answer(data={"workers": {"list": rows, "count": count, "next": following}})


def test_a_partner_lists_its_workers_if_it_shares_logs(browser: Browser, task: str) -> None:
    path = f"{task}?party=host-10000&version=1"
    page = browser.page(path)
    assert "host 10000 shows only its status here, and no results." in page.readable
    assert not [one for one, *_ in browser.world.peers.asked if one == HOST], "nobody is asked by a look at the page"
    [link] = [one for one in links(page) if "listed=0" in one]
    browser.world.peers.answers = {"/task/log": listed(0, 3, count=5, following=4)}
    with counted_queries(browser.world) as queries:
        page = browser.page(link)
    assert len(of_view(queries)) <= 10, queries
    assert "2 of 5 workers with the newest process of each, as host 10000 has just said" in page.readable
    assert "3 3 2 exited" in page.readable
    assert "<b>3 signal 9" in page.readable
    assert "flow task log" in page.readable
    assert 'data-poll="0"' in page.text, "it is not asked again every few seconds"
    logs = [parse_qs(one.partition("?")[2]) for one in links(page) if "/log?" in one]
    assert {(one["party"][0], one["worker"][0]) for one in logs} == {("host-10000", "0"), ("host-10000", "3")}
    assert any("listed=4" in one for one in links(page))


@pytest.mark.parametrize(("answer", "text"), [
    (Answer(retcode=100, retmsg="commands.share_logs is false at host 10000"), "commands.share_logs is false"),
    (Answer(data={"text": "x"}), "does not list its workers: its release is older"), (Answer(data=[]), "older"),
    (Answer(data={"workers": 7}), "in a form that this release does not know"),
    (listed(*range(101), count=101), "in a form that"), (listed(1, count=-1), "in a form that"),
    (Answer(data={"workers": {"list": [{"worker": "1"}], "count": 1, "next": None}}), "in a form that"),
    (Answer(data={"workers": {"list": [5], "count": 1, "next": True}}), "in a form that"),
])  # fmt: skip
def test_a_partner_that_lists_no_workers_shows_only_its_status(
    browser: Browser, task: str, answer: Answer, text: str
) -> None:
    browser.world.peers.answers = {"/task/log": answer}
    page = browser.page(f"{task}?party=host-10000&version=1&listed=0").readable
    assert "host 10000 shows only its status, which is above:" in page
    assert text in page


def test_only_the_initiator_asks_another_party_for_its_workers(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    job_id = world.add_job(party=GUEST, initiator=HOST, status=JobStatus.RUNNING)
    for party in (HOST, GUEST):
        world.add_task(job_id, party=party, f_status="running", f_party_status="running")
    page = Browser(world).page(f"/board/jobs/{job_id}/tasks/toy_0?party=host-10000&listed=0").readable
    assert "It may list its workers to host 10000, the initiator of the job, and to no other party." in page
    assert "Only host 10000, the initiator of the job, knows the attempts at other parties." in page
    assert not world.peers.asked


def test_a_partner_shows_its_log_if_it_shares_it(browser: Browser, task: str) -> None:
    shared = Answer(data={"text": "hello\n", "next_offset": 6, "bytes": 6, "status": "exited"})
    browser.world.peers.answers = {"/task/log": shared}
    page = browser.page(f"{task}/log?party=host-10000")
    assert "hello" in page.readable
    assert browser.world.peers.asked[-1][0] == HOST
    assert "flow task log" in page.readable
    refused = Answer(retcode=100, retmsg="commands.share_logs is false at host 10000")
    browser.world.peers.answers = {"/task/log": refused}
    assert "commands.share_logs is false" in browser.page(f"{task}/log?party=host-10000").readable
    rest = {"text": "x", "bytes": 6}
    for odd in ({"text": 5}, {**rest, "next_offset": -1}, {**rest, "next_offset": True}, []):
        browser.world.peers.answers = {"/task/log": Answer(data=odd)}
        assert "does not answer as this release expects" in browser.page(f"{task}/log?party=host-10000").readable


def test_a_job_that_has_ended_is_run_again_from_a_task(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=OWNER)
    ended = add_filled_task(world)
    running = world.add_job(status=JobStatus.RUNNING, f_claim="c", f_resource_in_use=True)
    for roles, expected in ((READ, []), (READ | SUBMIT, [ended])):
        browser = Browser(world)
        browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
        pages = {one: browser.page(f"/board/jobs/{one}/tasks/toy_0") for one in (ended, running)}
        assert [one for one, page in pages.items() if f"/board/jobs/{one}/rerun" in page.forms()] == expected
    assert 'name="component_name" value="toy_0"' in pages[ended].text


# ---------------------------------------------------------------------- metrics and files


def test_metrics_are_drawn_and_each_chart_has_its_table(browser: Browser, task: str) -> None:
    page = browser.page(f"{task}/metrics")
    charts = [one for one in page.tags if one.attributes.get("class") == "chart"]
    assert len(charts) == 12
    ids = {str(one.attributes.get("id")) for one in page.tags}
    assert all(one.attributes["aria-labelledby"] in ids for one in charts)
    assert sum(one.name == "table" for one in page.tags) == 17 + 1, "each, and a confusion matrix"
    text = browser.get(f"{task}/metrics.csv?namespace=train&name=loss").text.splitlines()
    assert (len(text), text[1]) == (41, "0,[0.7],1.0")
    assert browser.get(f"{task}/metrics.csv?namespace=train&name=none").status_code == 404


def test_metrics_are_read_again_only_if_something_new_was_reported(
    browser: Browser, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, calls = browser.world.services.views.board, list[object]()
    read = queries.metrics
    monkeypatch.setattr(queries, "metrics", lambda key: (calls.append(key), read(key))[1])
    first = browser.page(f"{task}/metrics").text
    assert browser.page(f"{task}/metrics").text == first
    assert len(calls) == 1


def test_a_file_is_downloaded(browser: Browser, task: str) -> None:
    [link] = [one for one in links(browser.page(task)) if "/file?" in one]
    response = browser.get(link)
    assert (response.status_code, response.text) == (200, "{}")
    assert response.headers["Content-Disposition"] == "attachment; filename=report"
    assert browser.get(f"{task}/file?output=other").status_code == 404
    assert "only host 10000 has what it made there" in browser.page(f"{task}/metrics?party=host-10000", 404).readable


def test_an_older_attempt_keeps_its_file(browser: Browser, task: str) -> None:
    job_id, world = task.split("/")[3], browser.world
    for party in (GUEST, HOST):
        world.add_task(job_id, party=party, version=2, f_status="success", f_party_status="success", f_reason="done",
                       f_federated_reason="done", f_end_time=START + 90_000)  # fmt: skip
    made = add_worker(world, job_id, 2, COLLECTOR, "done").parent / "outputs" / "report"
    made.write_text("of the third attempt", encoding="utf-8")
    with world.store.transaction() as tx:
        tx.save_summary(TaskKey(job_id, "toy_0", 2, GUEST), {"files": {"report": {"size": 20}}}, START)
    of_task = {"job_id": job_id, "component_name": "toy_0", "output_name": "report"}
    for version, text in ((1, "{}"), (2, "of the third attempt")):
        assert browser.get(f"{task}/file?version={version}&output=report").text == text
        assert world.post("task/output", {**of_task, "task_version": version}).text == text
    assert world.post("task/output", of_task).text == text, "the newest"
    assert browser.get(f"{task}/file?version=0&output=report").status_code == 404, "it has failed"
    refused = [world.post("task/output", {**of_task, "task_version": version}).get_json() for version in (0, 3, -1)]
    assert [one["retmsg"].partition(":")[0] for one in refused] == ["output_name", "output_name", "task_version"]


# ---------------------------------------------------------------------- at a party that is not the initiator


def test_what_only_the_initiator_knows_is_not_said_to_have_not_begun(browser: Browser) -> None:
    world = browser.world
    job_id = world.add_job(party=GUEST, initiator=HOST, status=JobStatus.RUNNING, f_start_time=1)
    before = browser.page(f"/board/jobs/{job_id}").readable
    assert "guest 9999: not begun host 10000: not known here" in before
    world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=1)
    page = browser.page(f"/board/jobs/{job_id}").readable
    assert "guest 9999: running host 10000: not known here" in page
    assert "Only the initiator knows how far the other parties are." in page
    timeline = browser.page(f"/board/jobs/{job_id}/history").readable
    assert "host 10000 \u2013 not known here \u2013 \u2013 \u2013" in timeline
    assert "guest 9999 \u2013 not known here" not in timeline


def test_a_party_that_is_not_the_initiator_is_offered_no_rerun(browser: Browser) -> None:
    for initiator, is_offered in ((GUEST, True), (HOST, False)):
        job_id = browser.world.add_job(party=GUEST, initiator=initiator, status=JobStatus.SUCCESS, f_start_time=1)
        assert (f"/board/jobs/{job_id}/rerun" in browser.page(f"/board/jobs/{job_id}").forms()) is is_offered


# ---------------------------------------------------------------------- who may see what


def signed_in(world: World, roles: ClientRole) -> Browser:
    browser = Browser(world)
    browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
    return browser


def test_a_reader_sees_no_logs_and_no_files(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=OWNER)
    task = f"/board/jobs/{add_filled_task(world)}/tasks/toy_0"
    reader, auditor, user = (signed_in(world, roles) for roles in (READ, AUDIT | READ, SUBMIT))
    page = reader.page(task)
    assert not [one for one in links(page) if "/log" in one or "/file" in one]
    assert page.forms() == ["/board/sign-out"]
    assert "Your key has no client role that reads logs" in page.readable
    for path in (f"{task}/log", f"{task}/log/piece", f"{task}/log/file", f"{task}/file?output=report"):
        assert reader.get(path).status_code == 403, path
        assert user.get(path).status_code == 200, path
    assert reader.get(f"{task}/metrics").status_code == 200
    assert auditor.get(f"{task}/log").status_code == 200
    assert auditor.get(f"{task}/file?output=report").status_code == 403
