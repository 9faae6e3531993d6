"""The board in a real browser: each view without an error in the console and without a barrier, on a phone and in the
dark; signing in, keeping fresh, and acting."""

from __future__ import annotations

import pytest

from fate_flow.core.access.client_roles import APPROVE, AUDIT, OPERATE, READ, SUBMIT
from fate_flow.core.model.status import JobStatus
from fate_flow.core.record.entry import OWN_LOG, Kind, new_entry
from fate_flow.services.record.sealing import seal_new
from fate_flow.settings.people import Client
from tests.kit.api.client_world import START
from tests.kit.api.recorded_world import JOB as RECORDED
from tests.kit.waiting import eventually
from tests.kit.web.chromium import Chromium
from tests.kit.web.filled_task import add_worker
from tests.kit.web.site import SCRIPT, Site

pytestmark = [pytest.mark.timeout(300), pytest.mark.heavy]

IS_LIVE = "return document.getElementById('log').dataset.live === 'yes'"


# ---------------------------------------------------------------------- signing in


def test_a_link_survives_the_sign_in_and_the_secret_stays_in_the_browser(site: Site) -> None:
    anna = site.client("anna", SUBMIT)
    path = f"/board/jobs/{site.jobs['failed']}"
    site.sign_in(anna, path)
    site.window.wait_for_text("toy_0 failed on host 10000")
    assert site.window.url == f"{site.url}{path}"
    assert site.window.run("return document.cookie") == "", "no script reads the session"
    assert site.window.run("return performance.getEntriesByType('resource').map((one) => one.name)"), "files of ours"
    assert site.window.console() == []


def test_a_wrong_secret_is_said(site: Site) -> None:
    site.sign_in(Client("anna", "anna", "wrong", SUBMIT))
    site.window.wait_for_text("the app key or the secret key is wrong")
    assert [one for one in site.window.console() if "403" not in one] == []


# ---------------------------------------------------------------------- every view


def views(site: Site) -> list[str]:
    jobs = [f"/board/jobs/{one}" for one in site.jobs.values()]
    task = f"{jobs[4]}/tasks/toy_0"
    of_task = [task, f"{task}/metrics", f"{task}/model?output=model", f"{task}/log", f"{task}/log?find=step%2099"]
    of_task += [f"{task}/usage?version=0"]
    table = f"/board/data/table?namespace=output_{site.jobs['filled']}&name=made"
    lists = [f"/board/{one}" for one in ("", "jobs", "queue", "approvals", "audit", "data?origin=output")]
    record = f"/board/jobs/{RECORDED}/record"
    paths = [*lists, "/board/jobs?party=10000&person=ann", record, *jobs, f"{jobs[1]}/history", *of_task, table]
    return [*paths, "/board/sign-in?next=/board/jobs", "/board/nothing"]


def test_the_first_view_of_each_page_is_three_requests(site: Site) -> None:
    """Then the page asks whether something is new, and for what a log has more, each by one request."""
    running = site.world.add_job(status=JobStatus.RUNNING, f_start_time=START)
    site.world.add_task(running, f_status="running", f_party_status="running", f_start_time=START)
    add_worker(site.world, running, 0, 0).write_text("begun\n", encoding="utf-8")
    log = f"/board/jobs/{running}/tasks/toy_0/log"
    site.sign_in(site.client("newcomer", SUBMIT | OPERATE | APPROVE | AUDIT))
    site.window.wait_for_text("Overview")
    for path in (*views(site), log):
        site.window.go("about:blank")
        site.window.run_cdp("Network.clearBrowserCache", {})
        site.asked.clear()
        site.window.go(f"{site.url}{path}")
        if path == log:                  # its shared worker has the script of the page
            eventually(lambda: site.window.run(IS_LIVE), "events about this log")
        eventually(lambda: len(loads(site)) > 2, f"the files of {path}")
        assert sorted(loads(site)) == ["document", "script", "style"], (path, site.asked)
        later = {where for kind, where in site.asked if kind == "empty"}
        assert later <= {path.partition("?")[0], f"{log}/piece", "/board/log-events"}, (path, site.asked)
    assert [one for one in site.window.console() if "/board/nothing" not in one] == []


def loads(site: Site) -> list[str]:
    """What the server was asked for to show the page: an error page counts as shown before its files have come."""
    return [kind for kind, _ in site.asked if kind != "empty"]


def test_each_view_has_no_error_and_no_barrier_at_any_size(site: Site) -> None:
    site.sign_in(site.client("everything", SUBMIT | OPERATE | APPROVE | AUDIT))
    site.window.wait_for_text("Overview")
    task, job = f"/board/jobs/{site.jobs['filled']}/tasks/toy_0", f"/board/jobs/{site.jobs['running']}"
    sizes = ((360, 740, "dark"), (1280, 900, "light"), (3840, 2160, "dark"))
    problems = []
    for number, path in enumerate(views(site)):
        # The pages share one style sheet: both colour schemes are looked at where a page has drawings of its own.
        audited = (360, 1280) if path in (f"{task}/metrics", job) else (sizes[number % 3][0],)
        site.window.go(f"{site.url}{path}")
        if number:                       # the first page brings the files that all have
            problems += [f"{path}: {asked}" for asked in [further(site)] if len(asked) > 2]
        for width, height, scheme in sizes:
            site.window.resize(width, height)
            site.window.prefer(scheme)
            wide = site.window.run("return document.documentElement.scrollWidth")
            if wide > width:
                problems.append(f"{path} at {width}: {wide} wide")
            if width in audited:
                problems += [f"{path} at {width}, {scheme}: {one}" for one in site.window.barriers()]
        assert site.window.run("return document.title") != "taken over"
        problems += [f"{path}: {one}" for one in site.window.console() if path != "/board/nothing" or "404" not in one]
    site.window.resize(1280, 900)
    site.window.prefer("light")
    assert problems == []


def further(site: Site) -> list[str]:
    """The requests of the page besides itself, without files that the browser had."""
    files = "performance.getEntriesByType('resource').filter((one) => one.transferSize > 0)"
    return list(site.window.run(f"return {files}.map((one) => one.name)"))


def test_the_graph_is_drawn_from_the_start_and_leads_to_its_table(site: Site) -> None:
    site.sign_in(site.client("graphs", READ), f"/board/jobs/{site.jobs['running']}")
    site.window.wait_for_text("load", "#graph")
    nodes = site.window.run("return [...document.querySelectorAll('#graph a')].map((one) => one.textContent)")
    assert sorted(nodes) == ["left not begun", "load waiting", "right not begun", "total not begun"]
    assert site.window.run("return document.querySelectorAll('#graph path').length") == 3
    site.window.run("document.querySelector('#graph a[href=\"#task-total\"]').focus()")
    site.window.press_keys(["\ue007"])
    # The page tells the browser of its new address, a moment later.
    eventually(lambda: site.window.url.endswith("#task-total"), "the address of the table")
    assert site.window.console() == []


def test_all_jobs_that_fit_are_counted_by_a_button(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.store.views.board.MOST_SEARCHED", 2)
    for number in range(3):
        site.world.add_job(f_name=f"alike {number}")
    site.sign_in(site.client("counter", READ), "/board/jobs?text=alike")
    site.window.wait_for_text("This search has looked at 2 jobs")
    site.window.click("#count")
    site.window.wait_for_text("3 jobs fit in all", "#counted")
    assert site.window.console() == []


def test_times_are_typed_in_the_zone_of_the_browser_and_addressed_in_utc(site: Site) -> None:
    window = site.window
    job_id = site.world.add_job(f_name="of one minute")
    site.world.write("t_job", {"f_job_id": job_id}, f_create_time=1_782_000_030_000)      # 2026-06-21T00:00:30Z
    site.sign_in(site.client("clock", READ))
    window.wait_for_text("Overview")
    window.run_cdp("Emulation.setTimezoneOverride", {"timezoneId": "America/New_York"})
    try:
        window.go(f"{site.url}/board/jobs?text=of+one&after=2026-06-21T00:00:15Z&before=2026-06-22")
        window.wait_for_text("of one minute")
        window.wait_for_text("Created from (America/New_York)")
        assert _times(window) == ["2026-06-20T20:00:15", "2026-06-21T20:00"]
        _type_time(window, "before", "2026-06-20T20:00:45")
        window.press_keys(["\ue007"])
        window.wait_for_text("--before 2026-06-21T00:00:45Z", ".same")
        assert "after=2026-06-21T00%3A00%3A15Z&before=2026-06-21T00%3A00%3A45Z" in window.url
        window.wait_for_text("of one minute")
        _type_time(window, "after", "2026-06-20T20:00:31")
        window.press_keys(["\ue007"])
        window.wait_for_text("No job fits.")
        window.go(f"{site.url}/board/jobs?after=2026-11-01T06:30Z")     # the second 01:30 of the night
        window.wait_for_text("(America/New_York)")
        assert _times(window) == ["2026-11-01T01:30", ""]
        window.click("form[role=search] button")
        window.wait_for_text("--after 2026-11-01T06:30Z", ".same")
        assert window.console() == []
    finally:
        window.run_cdp("Emulation.setTimezoneOverride", {"timezoneId": ""})


def _times(window: Chromium) -> list[str]:
    return list(window.run("return [...document.querySelectorAll('input[data-utc]')].map((one) => one.value)"))


def _type_time(window: Chromium, field: str, time: str) -> None:
    window.run("const one = document.getElementById(arguments[0]); one.value = arguments[1]; one.focus()", field, time)


# ---------------------------------------------------------------------- fresh, and acting


def test_a_page_keeps_itself_fresh_and_what_somebody_does_stays(site: Site) -> None:
    site.sign_in(site.client("watcher", SUBMIT), f"/board/jobs/{site.jobs['waiting']}")
    site.window.wait_for_text("1 of 8 cores free")
    site.window.type("input[name=reason]", "half a sent")
    site.window.run("document.querySelector('details').open = true; window.isSamePage = true")
    now = "host 10000 has 0 of 8 cores free, 2 asked"
    site.world.write("t_job", {"f_job_id": site.jobs["waiting"]}, f_wait_reason=now)
    site.window.wait_for_text("0 of 8 cores free")
    kept = "return [window.isSamePage, document.querySelector('input[name=reason]').value, document.activeElement.name,"
    assert site.window.run(f"{kept} document.querySelector('details').open]") == [True, "half a sent", "reason", True]
    assert site.window.console() == []


def test_a_log_is_followed_from_its_begin(site: Site) -> None:
    job_id = site.world.add_job(status=JobStatus.RUNNING, f_start_time=START)
    site.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=START)
    path = add_worker(site.world, job_id, 0, 0)
    path.write_text(f"the first line {SCRIPT}\n", encoding="utf-8")
    site.sign_in(site.client("follower", AUDIT | READ), f"/board/jobs/{job_id}/tasks/toy_0/log")
    site.window.wait_for_text("the first line", "#log")
    with path.open("a", encoding="utf-8") as file:
        file.write("the second line\n")
    site.window.wait_for_text("the second line", "#log")
    site.window.wait_for_text("what is written appears here", "#log-state")
    eventually(lambda: site.window.run(IS_LIVE), "events about this log")
    with path.open("a", encoding="utf-8") as file:
        file.write("the third line\n")
    site.window.wait_for_text("the third line", "#log")
    site.world.write("t_worker", {"f_job_id": job_id}, f_status="exited", f_reason="done", f_caused_by="task")
    site.window.wait_for_text("nothing more comes", "#log-state")
    eventually(lambda: not site.events.count, "no connection for a log that is over")
    assert site.window.run("return document.title") != "taken over"
    assert site.window.console() == []


def test_a_log_that_was_not_there_when_its_page_was_opened_is_followed_too(site: Site) -> None:
    job_id = site.world.add_job(status=JobStatus.RUNNING, f_start_time=START)
    site.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=START)
    site.sign_in(site.client("early", AUDIT | READ), f"/board/jobs/{job_id}/tasks/toy_0/log")
    site.window.wait_for_text("toy_0", "h1")
    assert site.window.run("return document.getElementById('log')") is None
    path = add_worker(site.world, job_id, 0, 0)
    path.write_text("the first line\n", encoding="utf-8")
    _hide(site, False)                   # who looks at a page again does not wait until it asks by itself
    site.window.wait_for_text("the first line", "#log")
    with path.open("a", encoding="utf-8") as file:
        file.write("the second line\n")
    site.window.wait_for_text("the second line", "#log")
    eventually(lambda: site.window.run(IS_LIVE), "events about this log")
    assert site.window.console() == []


def test_a_page_whose_job_was_removed_says_so(site: Site) -> None:
    job_id = site.world.add_job(f_name="to be removed")
    site.sign_in(site.client("late", READ), f"/board/jobs/{job_id}")
    site.window.wait_for_text("to be removed")
    site.world.write("t_job", {"f_job_id": job_id}, f_job_id=f"9{job_id[1:]}")
    _hide(site, False)
    site.window.wait_for_text("does not know what is shown here any more", "#lost")
    site.window.wait_for_text("the job was removed", "#lost")
    site.window.wait_for_text("to be removed")
    site.world.write("t_job", {"f_job_id": f"9{job_id[1:]}"}, f_job_id=job_id)
    _hide(site, False)
    site.window.wait_until("return document.getElementById('lost').hidden", "the job is there again")
    assert [one for one in site.window.console() if "404" not in one] == []


def test_ten_tabs_follow_the_logs_of_every_worker(site: Site) -> None:
    """The server has one thread and browsers six connections: pages that kept one open would stop the others. So all
    of them share one."""
    job_id = site.world.add_job(status=JobStatus.RUNNING, f_start_time=START)
    site.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=START)
    files = [add_worker(site.world, job_id, 0, slot) for slot in range(5)]
    for slot, file in enumerate(files):
        file.write_text(f"worker {slot} begins\n", encoding="utf-8")
    site.sign_in(site.client("tabs", AUDIT | READ))
    site.window.wait_for_text("Overview")
    first, tabs = site.window.tab, []
    for number in range(10):
        site.window.new_tab()
        tabs.append(site.window.tab)
        site.window.go(f"{site.url}/board/jobs/{job_id}/tasks/toy_0/log?worker={number % 5}")
        site.window.wait_for_text(f"worker {number % 5} begins", "#log")
        eventually(lambda: site.window.run(IS_LIVE), f"events in tab {number}")
    eventually(lambda: site.events.count == 1, "one connection of all tabs")
    for slot, file in enumerate(files):
        with file.open("a", encoding="utf-8") as log:
            log.write(f"worker {slot} goes on\n")
    for number, tab in enumerate(tabs):
        site.window.look_at(tab)
        site.window.wait_for_text(f"worker {number % 5} goes on", "#log")
        assert site.window.console() == []
        site.window.close_tab()
    site.window.look_at(first)
    eventually(lambda: not site.events.count, "no connection without a page that needs it")


def test_a_hidden_tab_catches_up_with_its_log_to_the_end(site: Site) -> None:
    job_id = site.world.add_job(status=JobStatus.RUNNING, f_start_time=START)
    site.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=START)
    path = add_worker(site.world, job_id, 0, 0)
    path.write_text("begun\n", encoding="utf-8")
    site.sign_in(site.client("hidden", AUDIT | READ), f"/board/jobs/{job_id}/tasks/toy_0/log")
    site.window.wait_for_text("begun", "#log")
    site.window.run(
        "window.asked = 0; const ask = window.fetch;"
        "window.fetch = (...given) => { window.asked += 1; return ask(...given); };"
    )
    asked = "return window.asked"
    for lines in (30_000, 200_000):        # several pieces; and more than a reader wants to have all of
        _hide(site, True)
        before = site.window.run(asked)
        with path.open("a", encoding="utf-8") as log:
            log.writelines(f"line {number}\n" for number in range(lines))
            log.write(f"the end of {lines}\n")
        site.window.run("document.getElementById('log').scrollTop = 0; document.getElementById('log').scrollTop = 1e9")
        assert site.window.run(asked) == before, "a hidden page asks nothing"
        _hide(site, False)
        site.window.wait_for_text(f"the end of {lines}", "#log")
        site.window.wait_for_text("what is written appears here", "#log-state")
    assert site.window.url.endswith("at=end")
    assert site.window.console() == []


def _hide(site: Site, is_hidden: bool) -> None:
    """Let the page think that somebody looks at another tab, or at this one again."""
    site.window.run(
        "Object.defineProperty(document, 'hidden', {configurable: true, value: arguments[0]});"
        "document.dispatchEvent(new Event('visibilitychange'))", is_hidden,
    )  # fmt: skip


def test_a_job_is_held_released_and_stopped_by_buttons(site: Site) -> None:
    job_id = site.world.add_job(f_name="to be stopped")
    site.sign_in(site.client("operator", OPERATE), f"/board/jobs/{job_id}")
    site.window.wait_for_text("to be stopped")
    site.window.type("form[action$=hold] input[name=reason]", "until Monday")
    site.window.click("form[action$=hold] button")
    site.window.wait_for_text("The job is on hold")
    site.window.wait_for_text("operator holds the job")
    site.window.click("form[action$=release] button")
    site.window.wait_for_text("The job is released")
    site.window.click("form[action$=stop] button")
    site.window.accept_question()
    site.window.wait_for_text("The job is being stopped")
    [row] = site.world.services.context.read(lambda tx: tx.jobs_here(job_id))
    assert row.cancel_requested
    assert site.window.console() == []


def test_the_record_is_counted_and_verified_by_buttons(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.store.views.board_record.MOST_SEARCHED", 20)
    with site.world.store.transaction() as tx:
        tx.add_to_record([new_entry(OWN_LOG, Kind.KEYS, START, {"number": number}) for number in range(45)])
        seal_new(tx, START)
    site.sign_in(site.client("auditor", AUDIT | READ), "/board/audit?kind=keys")
    site.window.wait_for_text("Verify all logs")
    site.window.click("#count")
    site.window.wait_for_text("45 entries fit in all", "#counted")
    site.window.click("form[action$=verify] button")
    site.window.wait_for_text("nobody else vouches for it")
    assert site.window.barriers() == []
    assert site.window.console() == []


def test_a_link_of_an_older_release_leads_to_the_job(site: Site) -> None:
    site.sign_in(site.client("older", READ))
    site.window.wait_for_text("Overview")
    site.window.go(f"{site.url}/board/queue#/dashboard?job_id={site.jobs['failed']}&role=guest&party_id=9999")
    site.window.wait_for_text("toy_0 failed on host 10000")
    assert site.window.url.endswith(f"/board/jobs/{site.jobs['failed']}")
