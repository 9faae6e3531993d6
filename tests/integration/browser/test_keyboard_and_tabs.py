"""The board by the keyboard alone, and in tabs that nobody looks at."""

from __future__ import annotations

import pytest

from fate_flow.core.access.client_roles import APPROVE, AUDIT, OPERATE, READ, SUBMIT
from fate_flow.core.model.status import JobStatus
from tests.kit.api.client_world import START
from tests.kit.waiting import eventually
from tests.kit.web.chromium import Chromium
from tests.kit.web.site import Site

pytestmark = [pytest.mark.timeout(300), pytest.mark.heavy]

TAB, ENTER, SPACE = "\ue004", "\ue007", "\ue00d"
MOST_STOPS = 400
CONTROLS = """
const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
const isControl = (one) => one.checkVisibility() && one.type !== "hidden" && !one.disabled && one.tabIndex >= 0;
window.controls = all.filter(isControl);
return window.controls.map((one) => one.outerHTML.slice(0, 120));
"""
FOCUSED = """
const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
const isInView = box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
const isMarked = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
return [window.controls.indexOf(one), isInView, isMarked];
"""


def test_tab_reaches_every_control_in_order_and_shows_where_it_is(site: Site) -> None:
    site.sign_in(site.client("keys", SUBMIT | OPERATE | APPROVE | AUDIT))
    site.window.wait_for_text("Overview")
    job, task = (f"/board/jobs/{site.jobs[name]}" for name in ("waiting", "filled"))
    paths = ["/board/", "/board/jobs?after=2023-01-01", job, f"/board/jobs/{site.jobs['running']}", f"{job}/history"]
    paths += [f"/board/jobs/{site.jobs['review']}", f"{task}/tasks/toy_0", f"{task}/tasks/toy_0/usage?version=0"]
    paths += [f"{task}/tasks/toy_0/log", "/board/audit", "/board/queue", "/board/data"]
    problems = []
    for path in paths:
        site.window.go(f"{site.url}{path}")
        problems += [f"{path}: {one}" for one in walked(site.window)]
        assert site.window.console() == []
    assert problems == []


def walked(window: Chromium) -> list[str]:
    """Go through the page by the tab key, once around; what is missed, out of order, or not to be seen."""
    names = eventually(lambda: window.run(CONTROLS), "controls: a busy browser may not have begun with the page yet")
    assert len(names) > 5
    found, seen = [], list[int]()
    for _ in range(MOST_STOPS):
        window.press_keys([TAB])
        place, is_in_view, is_marked = window.run(FOCUSED)
        if place < 0 or (seen and place == seen[0] != seen[-1]):
            break
        if not seen or seen[-1] != place:        # a time has several parts
            seen.append(place)
        if not is_in_view or not is_marked:
            found.append(f"{names[place]}: in view {is_in_view}, marked {is_marked}")
    if seen != list(range(len(names))):
        found.append(f"reached {seen} of {list(enumerate(names))}")
    return found


def test_the_first_stop_skips_to_the_content(site: Site) -> None:
    site.sign_in(site.client("skips", READ), "/board/jobs")
    site.window.wait_for_text("newest first")
    site.window.press_keys([TAB])
    assert site.window.run("return document.activeElement.textContent") == "Skip to the content"
    assert site.window.run("return document.activeElement.getBoundingClientRect().left >= 0"), "it can be seen now"
    site.window.press_keys([ENTER])
    assert site.window.run("return document.activeElement.id") == "main"
    site.window.press_keys([TAB])
    assert site.window.run("return document.activeElement.id") == "text", "the first control of the content"


def test_enter_opens_what_the_focus_is_on(site: Site) -> None:
    window, job_id = site.window, site.jobs["waiting"]
    site.sign_in(site.client("opens", SUBMIT | OPERATE), "/board/jobs")
    window.wait_for_text("newest first")
    _focus(window, f"a[href='/board/jobs/{job_id}']")
    window.press_keys([ENTER])
    window.wait_for_text("1 of 8 cores free")
    assert window.url == f"{site.url}/board/jobs/{job_id}"
    for key, is_open in ((ENTER, True), (SPACE, False)):
        _focus(window, "summary")
        window.press_keys([key])
        assert window.run("return document.querySelector('summary').parentElement.open") is is_open
    _focus(window, "form[action$=stop] button")
    window.press_keys([ENTER])
    window.dismiss_question()            # as the key Escape does: the browser's own dialog, the only one of the board
    [row] = site.world.services.context.read(lambda tx: tx.jobs_here(job_id))
    assert not row.cancel_requested
    assert window.run("return document.activeElement.matches('form[action$=stop] button')"), "where it was"
    assert window.console() == []


def _focus(window: Chromium, css: str) -> None:
    window.run("document.querySelector(arguments[0]).focus()", css)


# Its timers are run by hand, so nobody waits for what must not happen. While it is hidden, its timer is due twice.
BY_HAND = """
window.asked = 0; window.due = []; window.states = []; window.whileHidden = [];
const ask = window.fetch;
window.fetch = (...given) => { window.asked += 1; return ask(...given); };
window.setTimeout = (run, after) => window.due.push([run, after]);
document.addEventListener("visibilitychange", () => {
  window.states.push(document.visibilityState);
  if (!document.hidden) return;
  const asked = window.asked, run = window.due.at(-1)[0];
  run(); run();
  window.whileHidden.push(window.asked - asked);
});
document.dispatchEvent(new Event("visibilitychange"));
"""


def test_a_page_in_a_hidden_tab_asks_nothing_and_catches_up(site: Site) -> None:
    window = site.window
    job_id = site.world.add_job(status=JobStatus.RUNNING, f_start_time=START, f_name="looked away")
    site.sign_in(site.client("away", READ), f"/board/jobs/{job_id}")
    window.wait_for_text("looked away")
    first = window.tab
    window.run(BY_HAND)
    window.wait_until("return window.due.length === 1", "the page plans its next request")
    assert window.run("return [window.asked, window.due[0][1]]") == [1, 4_000]
    window.new_tab()                     # the browser shows this one, and the other is hidden
    other = window.tab
    site.world.write("t_job", {"f_job_id": job_id}, f_name="named anew")
    window.look_at(first)
    assert window.run("return window.states") == ["visible", "hidden", "visible"]
    assert window.run("return window.whileHidden") == [0], "a hidden page asks nothing"
    window.wait_for_text("named anew")
    window.wait_until("return window.due.length === 2", "the page goes on: it has planned nothing while it was hidden")
    assert window.run("return window.asked") == 2
    assert window.console() == []
    window.look_at(other)
    window.close_tab()
    window.look_at(first)
