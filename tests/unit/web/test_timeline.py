"""The timeline of a job: phases of parties and of attempts, silences, and what is folded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Job, JobKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
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


def again(at: int, run: int) -> tuple[HistoryEntry, ...]:
    """A run that fails a second later, with what its initiator sees of the host."""
    return (
        HistoryEntry("1", JOB, "failed", "waiting", at, GUEST, message=f"run {run} begins"),
        entry(SEAT, "left", "joining", at, HOST), entry(SEAT, "joining", "joined", at + 10, HOST),
        entry(SEAT, "joined", "started", at + 30, HOST), entry(JOB, "waiting", "running", at + 30),
        entry(JOB, "running", "failed", at + 900), entry(SEAT, "started", "left", at + 900, HOST),
    )  # fmt: skip


FAILED = (*OF_HOST, entry(JOB, "running", "failed", 90), entry(SEAT, "started", "leaving", 90, HOST))


def test_each_run_of_a_job_has_a_track_of_its_own() -> None:
    away = (
        entry(SILENCE, "", "does not answer", 60, HOST), *FAILED, *again(1_000, 1),
        entry(SILENCE, "", "answers again", 1_950, HOST), *again(2_000, 2)[:-2],
    )  # fmt: skip
    found = timeline_of(times(*away), 3_000)
    assert (found.runs, found.folded_runs) == (3, 0)
    assert [(track.name, track.result) for track in found.tracks] == [
        ("host 10000, run 0", "leaving"), ("host 10000, run 1", "left"), ("host 10000, run 2", "started"),
    ]  # fmt: skip
    first, second, third = map(phases, found.tracks)
    assert first[-2:] == [("end", 90, 1_000, False), ("silence", 60, 90, False)]
    assert second == [
        ("invited", 1_000, 1_010, False), ("queue", 1_010, 1_030, False), ("run", 1_030, 1_900, False),
        ("silence", 1_000, 1_950, False),
    ]  # fmt: skip
    assert third == [("invited", 2_000, 2_010, False), ("queue", 2_010, 2_030, False), ("run", 2_030, 2_030, True)]


def test_many_runs_are_folded_and_counted() -> None:
    many = [one for run in range(1, 30) for one in again(run * 1_000, run)]
    found = timeline_of(times(*FAILED, *many), 0)
    assert (found.runs, found.folded_runs) == (30, 20)
    assert [one.name for one in found.tracks[:2]] == ["host 10000, runs 0 to 19", "host 10000, run 20"]
    assert [one[:2] for one in phases(found.tracks[0]) if one[0] == "invited"] == [
        ("invited", run * 1_000) for run in range(20)
    ]  # fmt: skip
    every = timeline_of(times(*FAILED, *many), 0, folds_runs=False)
    assert [one.name for one in every.tracks] == [f"host 10000, run {run}" for run in range(30)]
    newest = timeline_of(times(*many[-10:]), 0)
    assert len(newest.tracks) == 2, "what is older than the changes that were read has no track"


def test_a_party_that_missed_a_run_numbers_them_as_its_entries_say() -> None:
    entries = (
        entry(JOB, "", "ready", 0, HOST), entry(JOB, "ready", "failed", 10, HOST),
        HistoryEntry("1", JOB, "failed", "waiting", 20, HOST, message="run 2 begins"),
        HistoryEntry("1", JOB, "waiting", "failed", 30, HOST),
        HistoryEntry("1", JOB, "failed", "waiting", 40, HOST, message="waits for the return of guest 9999"),
    )  # fmt: skip
    found = times(*entries)
    job = Job(JobKey("1", HOST), GUEST, False, JobStatus.WAITING, run=3)
    assert [one.name for one in timeline_of(replace(found, jobs=(job,)), 0).tracks] == [
        f"host 10000, run {run}" for run in (0, 2, 3)
    ]  # fmt: skip


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


def test_the_page_says_how_many_runs_are_folded(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    job_id = world.add_job(f_run=29)
    with world.store.transaction() as tx:
        many = [*FAILED, *(one for run in range(1, 30) for one in again(run * 1_000, run))]
        tx.add_entries([replace(one, job_id=job_id, at=START + one.at) for one in many])
    browser, path = Browser(world), f"/board/jobs/{job_id}/history"
    with counted_queries(world) as queries:
        page = browser.page(path)
    assert len(queries) <= 10
    for text in (
        "The job has 30 runs; run 0 is the first one.",
        "each of the newest 10 runs, and one for the 20 before."
    ):
        assert text in page.readable
    [link] = [str(one.attributes["href"]) for one in page.tags if "runs=" in str(one.attributes.get("href"))]
    every = browser.page(link).readable
    assert "Each party has a track for each run." in every
    assert all(f"host 10000, run {run} " in every for run in range(30))


@pytest.mark.parametrize("query", ["tasks=0", "tasks=x", "from=-1", "runs=x"])
def test_an_odd_page_is_refused_by_its_name(tmp_path: Path, query: str) -> None:
    world = make_world(tmp_path)
    path = f"/board/jobs/{world.add_job()}/history?{query}"
    assert f"{query.partition('=')[0]}:" in Browser(world).page(path, 400).readable
