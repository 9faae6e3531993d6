"""The timeline of a job: phases of parties and of attempts, silences, and what is folded."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.spec import Party
from fate_flow.store.views.times.job_times import FoldedShares, JobTimes, ShareTimes
from fate_flow.web.jobs.timeline import NAMES, WIDTH, Track, duration, timeline_of
from tests.kit.api.client_world import GUEST, HOST, START, World, make_world
from tests.kit.web.browser import Browser, counted_queries


def entry(level: HistoryLevel, old: str, new: str, at: int, party: Party = GUEST, task: str = "") -> HistoryEntry:
    return HistoryEntry("1", level, old, new, at, party, task)


def times(
    *phases: HistoryEntry, shares: tuple[ShareTimes, ...] = (), begun: tuple[HistoryEntry, ...] = (),
    folded: tuple[FoldedShares, ...] = (),
) -> JobTimes:  # fmt: skip
    return JobTimes((), phases, len(phases), shares, len(shares), None, begun, folded, len(folded), (), 0, 0, {})


def phases(track: Track) -> list[tuple[str, int, int, bool]]:
    return [(one.kind, one.start, one.end, one.goes_on) for one in track.phases]


JOB, SEAT, SILENCE, TASK = HistoryLevel.JOB, HistoryLevel.SEAT, HistoryLevel.SILENCE, HistoryLevel.TASK
OF_HOST = (
    entry(JOB, "", "ready", 0), entry(SEAT, "joining", "joined", 10, HOST), entry(JOB, "ready", "waiting", 10),
    entry(SEAT, "joined", "checking", 20, HOST), entry(SEAT, "checking", "applying", 25, HOST),
    entry(SEAT, "applying", "held", 30, HOST), entry(SEAT, "held", "starting", 40, HOST),
    entry(SEAT, "starting", "started", 50, HOST), entry(JOB, "waiting", "running", 50),
)  # fmt: skip


def test_a_party_has_each_phase_of_its_seat() -> None:
    [track] = timeline_of(times(*OF_HOST), 0).tracks
    assert phases(track) == [
        ("invited", 0, 10, False), ("queue", 10, 20, False), ("reservation", 20, 40, False), ("start", 40, 50, False),
        ("run", 50, 50, True),
    ]  # fmt: skip
    assert (track.name, track.result) == (str(HOST), "started")


def test_a_silence_lies_beside_what_the_party_did_and_ends_with_the_job() -> None:
    entries = (
        *OF_HOST, entry(SILENCE, "", "does not answer", 60, HOST), entry(SILENCE, "", "answers again", 70, HOST),
        entry(SILENCE, "", "does not answer", 80, HOST), entry(JOB, "running", "failed", 90),
        entry(SEAT, "started", "unconfirmed", 120, HOST),
    )  # fmt: skip
    [track] = timeline_of(times(*entries), 0).tracks
    assert phases(track)[-3:] == [("run", 50, 120, False), ("silence", 60, 70, False), ("silence", 80, 90, False)]
    [still] = timeline_of(times(*entries[:-2]), 500).tracks
    assert phases(still)[-1] == ("silence", 80, 80, True)
    assert still.phases[-1].x + still.phases[-1].width == WIDTH, "it is drawn up to now"


def test_who_is_not_the_initiator_knows_its_own_row_alone() -> None:
    entries = (entry(JOB, "", "ready", 0, HOST), entry(JOB, "ready", "waiting", 10, HOST),
               entry(JOB, "waiting", "running", 30, HOST), entry(JOB, "running", "success", 90, HOST))  # fmt: skip
    [track] = timeline_of(times(*entries), 0).tracks
    assert phases(track) == [("invited", 0, 10, False), ("queue", 10, 30, False), ("run", 30, 90, False)]
    assert [(one.x, one.width) for one in track.phases] == [(250, 83), (333, 167), (500, 500)]


def test_a_party_of_which_nothing_is_known_has_a_track_that_says_so() -> None:
    found = timeline_of(times(entry(JOB, "", "ready", 0, HOST), entry(JOB, "ready", "waiting", 10, HOST)), 0, [GUEST])
    assert [(one.name, one.result, one.is_known) for one in found.tracks] == [
        (str(HOST), "waiting", True), (str(GUEST), "not known here", False),
    ]  # fmt: skip
    assert found.tracks[1].phases == ()


def test_attempts_wait_start_and_run() -> None:
    shares = (
        ShareTimes("a", HOST, 0, 10, 40, 60, "failed"), ShareTimes("a", HOST, 1, 60, 0, 0, "waiting"),
        ShareTimes("b", HOST, 0, 10, 0, 0, "waiting"), ShareTimes("c", HOST, 0, 10, 0, 30, "canceled"),
        ShareTimes("d", HOST, 0, 10, 20, 0, "running"),
    )  # fmt: skip
    begun = (
        HistoryEntry("1", TASK, "waiting", "running", 30, None, "a"),
        HistoryEntry("1", TASK, "waiting", "running", 70, None, "a", 1),
    )  # fmt: skip
    tracks = timeline_of(times(entry(JOB, "", "running", 100), shares=shares, begun=begun), 0).tracks[1:]
    assert [phases(track) for track in tracks] == [
        [("queue", 10, 30, False), ("start", 30, 40, False), ("run", 40, 60, False)],
        [("queue", 60, 70, False), ("start", 70, 100, True)], [("queue", 10, 100, True)], [("queue", 10, 30, False)],
        [("queue", 10, 20, False), ("run", 20, 100, True)],
    ]  # fmt: skip
    assert [(track.label, track.result) for track in tracks[:2]] == [
        ("a at host 10000", "failed"), ("a at host 10000 #2", "waiting"),
    ]  # fmt: skip


def test_a_clock_that_was_set_back_makes_no_phase_of_negative_width() -> None:
    found = timeline_of(times(entry(JOB, "", "waiting", 9_000), entry(JOB, "waiting", "running", 1_000)), 0)
    assert all(one.width > 0 and one.end >= one.start for track in found.tracks for one in track.phases)
    assert all(NAMES <= one.x <= one.x + one.width <= WIDTH for track in found.tracks for one in track.phases)
    assert timeline_of(times(), 5).tracks == ()


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0 s"), (59, "59 s"), (60, "1 min"), (90, "1 min 30 s"), (3_600, "1 h"), (5_400, "1 h 30 min"),
    (90_000, "1 d 1 h"),
])  # fmt: skip
def test_a_duration_is_as_people_say_it(seconds: int, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("span", [1, 900, 4_000, 61_000, 7_300_000, 86_400_000 * 400])
def test_the_axis_has_few_round_times(span: int) -> None:
    found = timeline_of(times(entry(JOB, "", "running", 0), entry(JOB, "running", "success", span)), 0)
    assert 1 <= len(found.ticks) <= 9
    assert all(NAMES <= x <= WIDTH for x, _ in found.ticks)


# ---------------------------------------------------------------------- a large job


def add_shares(world: World, job_id: str, tasks: int) -> None:
    """Rows as a job with many tasks has: the first half has ended."""
    world.add_task(job_id, "task_0", f_status="running", f_party_status="running", f_start_time=START)
    columns = [row[1] for row in world.store.database.execute_sql("PRAGMA table_info(t_task)").fetchall()]
    own = ("f_task_id", "f_component_name", "f_role", "f_party_id", "f_start_time", "f_end_time", "f_party_status",
           "f_reason")  # fmt: skip
    kept = [name for name in columns if name not in own]
    world.store.database.execute_sql(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {tasks - 1}) "
        f"INSERT INTO t_task ({', '.join((*own, *kept))}) "
        f"SELECT '{job_id}_task_' || i, 'task_' || i, p.role, p.id, {START} + i,"
        f" CASE WHEN i < {tasks // 2} THEN {START} + i + 60 END,"
        f" CASE WHEN i < {tasks // 2} THEN 'success' ELSE 'running' END,"
        f" CASE WHEN i < {tasks // 2} THEN 'done' END,"
        f" {', '.join('t.' + name for name in kept)} FROM n, t_task t,"
        " (SELECT 'guest' role, '9999' id UNION SELECT 'host', '10000') p WHERE t.f_job_id = ?", (job_id,),
    )  # fmt: skip


def test_a_job_of_5000_tasks_is_folded_and_paged(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    job_id = world.add_job()
    add_shares(world, job_id, 5_000)
    browser, path = Browser(world), f"/board/jobs/{job_id}/history"
    with counted_queries(world) as queries:
        page = browser.page(path)
    assert len(queries) <= 10
    assert len(page.text) < 30_000
    assert "9999 attempts of tasks at parties are folded, by component" in page.readable
    assert "SecureAddExample at host 10000" in page.readable
    assert "2499 of 4999 shares ended" in page.readable
    first = browser.page(f"{path}?tasks=1")
    one = browser.page(next(str(tag.attributes["href"]) for tag in first.tags if tag.attributes.get("rel") == "next"))
    assert "100 of 9999 attempts of tasks at parties, in the order of their start, continued" in one.readable
    assert sum("phase run" in str(tag.attributes.get("class")) and "x" in tag.attributes for tag in one.tags) >= 100
    assert len(one.text) < 250_000


def test_changes_are_paged_and_counted(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    job_id = world.add_job()
    with world.store.transaction() as tx:
        tx.add_entries([HistoryEntry(job_id, JOB, "ready", f"s{number}", START + number) for number in range(450)])
    browser, path, seen = Browser(world), f"/board/jobs/{job_id}/history", list[int]()
    while path:
        page = browser.page(path)
        seen.append(page.text.count("ready → s"))
        assert "of 450 changes" in page.readable
        path = next((str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"), "")
    assert seen == [200, 200, 50]


@pytest.mark.parametrize("query", ["tasks=0", "tasks=x", "from=-1"])
def test_an_odd_page_is_refused_by_its_name(tmp_path: Path, query: str) -> None:
    world = make_world(tmp_path)
    path = f"/board/jobs/{world.add_job()}/history?{query}"
    assert f"{query.partition('=')[0]}:" in Browser(world).page(path, 400).readable
