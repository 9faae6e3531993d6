"""What people read of a job: its name, when and how long, each thing once, in a line of the terminal."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime

import pytest
from rich.console import Console

from fate_flow.cli.console.wording import clock, duration, reason_text, short_moment
from fate_flow.cli.output.progress import LiveScreen
from fate_flow.core.text.phrases import counted
from tests.kit.cli.terminal import on_a_terminal

ID = "2026112209550633068000871"
GUEST, HOST = {"role": "guest", "party_id": "9999"}, {"role": "host", "party_id": "10000"}
YEAR = datetime.now().astimezone().year      # a table leaves out the year that it is
NOON = int(datetime(YEAR, 11, 22, 12, 0, 0).astimezone().timestamp() * 1000)
CAUSE = "table '2026112209550794561501795_match_0_guest_9999_data_7e864d0e' has no column 'nope'"
BROKEN = {"reason": "worker_error", "message": CAUSE}
JOB = {"job_id": ID, "role": "guest", "party_id": 9999, "status": "failed", "create_time": NOON, "elapsed": 2900,
       "reason": "task_failed", "message": f"total failed on guest 9999: {CAUSE}", "name": "monthly totals"}


def answer(data):
    return {"retcode": 0, "retmsg": "success", "data": data}


def share(party, status, **more):
    return {**party, "status": status, "reason": None, "message": "", "workers": [], **more}


def explained(**more):
    tasks = [
        {"component_name": "read", "task_version": 0, "status": "success", "parties": [
            share(GUEST, "success", start_time=NOON, end_time=NOON + 500), share(HOST, "success")]},
        {"component_name": "total", "task_version": 0, "status": "failed", **BROKEN, "caused_by": "guest 9999",
         "parties": [share(GUEST, "failed", **BROKEN, workers=[
             {"worker": 0, "rank": 0, "status": "exited", "exit_status": "exit code 1", **BROKEN}]),
             share(HOST, "canceled", reason="stopped", caused_by="guest 9999")]},
    ]
    return {**JOB, "start_time": NOON + 1000, "end_time": NOON + 3900, "time": NOON + 9000, "waiting_seconds": None,
            "parties": [{**GUEST, "status": "left", "asked_cores": 4}, {**HOST, "status": "left", "asked_cores": 4}],
            "tasks": tasks, **more}


def test_how_a_job_ended_is_said_once_with_its_name_and_its_times(flow, stub):
    stub.answers(answer(explained()))
    lines = flow("job", "explain", "--table", "-j", ID).stdout.splitlines()
    assert lines == [
        f"job {ID} (monthly totals): failed: total failed on guest 9999: {CAUSE}",
        f"submitted {YEAR}-11-22 12:00:00, started 12:00:01, ended 12:00:03 after 2.9 s",
        "",
        "  party        state   cores asked   message",
        "  guest-9999   ended   4",
        "  host-10000   ended   4",
        "",
        "  task    status    party        there      started    took    why",
        "  read    success   guest-9999   success    12:00:00   0.5 s",
        "                    host-10000   success",
        f"  total   failed    guest-9999   failed                        worker_error: {CAUSE}",
        "                    host-10000   canceled                      stopped (by guest-9999)",
    ]


@pytest.mark.parametrize(("more", "times"), [
    ({"start_time": None, "end_time": None, "waiting_seconds": 192.4}, "waiting for 3 min 12 s"),
    ({"end_time": None}, "started 12:00:01, running for 8.0 s"),
    ({"start_time": None}, "ended 12:00:03"),
    ({"end_time": NOON + 86_400_000}, f"started 12:00:01, ended {YEAR}-11-23 12:00:00 after 23 h 59 min"),
])
def test_explain_says_since_when(flow, stub, more, times):
    stub.answers(answer(explained(**more)))
    lines = flow("job", "explain", "--table", "-j", ID).stdout.splitlines()
    assert lines[1] == f"submitted {YEAR}-11-22 12:00:00, {times}"


def test_what_runs_says_for_how_long(flow, stub):
    tasks = [{"component_name": "read", "task_version": 0, "status": "running",
              "parties": [share(GUEST, "running", start_time=NOON)]}]
    stub.answers(answer(explained(tasks=tasks)))
    last = flow("job", "explain", "--table", "-j", ID).stdout.splitlines()[-1]
    assert last.endswith("running   12:00:00   9.0 s so far")


WAITS = "host 10000 is not ready: on hold by root: maintenance until noon; 1st in the queue"
SCREENS = {
    "jobs": (("job", "list"), {"jobs": [JOB, {**JOB, "status": "waiting", "wait_reason": WAITS}], "count": 2},
             [ID, "guest-9999", "11-22 12:00"]),
    "a job": (("job", "explain", "-j", ID), explained(), ["guest-9999", "host-10000", "canceled"]),
    "a history": (("job", "history", "-j", ID), {
        "moves": [{"time": NOON, "level": "party task", **HOST, "component_name": "total", "task_version": 0,
                   "old": "running", "new": "stopping", **BROKEN, "seen_by": one} for one in ("9999", "10000")],
        "parties": [{"party_id": "10000", "asked": "answered"}],
    }, ["task total host-10000", "stopping", "all"]),
    "the queue": (("queue", "list"), {"count": 1, "jobs": [{
        "job_id": ID, "name": "monthly totals", "place_in_queue": 1, "priority": 3, "wait_reason": WAITS,
        "parties": [{**GUEST, "asked_cores": 4}, {**HOST, "asked_cores": 12}], "passed_by": 1,
    }]}, [ID, "host-10000"]),
    "the parties": (("party", "list"), {"own": {}, "parties": [{
        "party_id": "10000", "url": "http://a-host.some-company.example:9380", "status": "silent", "circuit": "open",
        "message": WAITS,
    }]}, ["http://a-host.some-company.example:9380"]),
    "a watched job": (("job", "watch", "-j", ID), explained(), [ID, "guest-9999", "host-10000", "canceled", "4/4"]),
}


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("screen", SCREENS)
def test_no_line_is_wider_than_the_terminal_and_no_name_is_broken(flow, stub, screen, columns, monkeypatch):
    command, document, names = SCREENS[screen]
    if "watch" in command:
        lines = watched(flow, stub, monkeypatch, columns, command, [explained(**AGAIN), document])
        assert "restarting #1" in "\n".join(lines)
    else:
        lines = shown(flow, stub, monkeypatch, columns, command, document)
    assert max(map(len, lines)) <= columns
    assert [name for name in names if name not in "\n".join(lines)] == []


LONG_NAME = "hetero_secure_boost_training_0"
AGAIN = {
    "status": "running", "status_detail": "restarting", "reason": None, "message": "",
    "wait_reason": "host 10000 has not answered for 14 s; given up in 76 s; "
                   f"{LONG_NAME} begins again as version 2 when host 10000 has stopped",
    "tasks": [{"component_name": LONG_NAME, "task_version": 1, "status": "running", "status_detail": "restarting",
               "parties": [share(GUEST, "failed", **BROKEN), share(HOST, "running")]}],
}  # fmt: skip


def watched(flow, stub, monkeypatch, columns, command, looks):
    """All that a terminal of so many columns has shown when the job is over: the table, each time, and the messages."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=columns, height=24, color_system=None)
    monkeypatch.setattr("fate_flow.cli.output.progress.open_screen", lambda: LiveScreen(console, clock=lambda: 0.0))
    monkeypatch.setattr("fate_flow.cli.console.display._columns_of_messages", lambda: columns)
    stub.answers(*map(answer, looks))
    result = flow(*command)
    assert result.exit_code == 1, result.output
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", output.getvalue() + result.stderr))


def shown(flow, stub, monkeypatch, columns, command, document):
    """The lines of a table on a terminal of so many columns."""
    stub.answers(answer(document))
    monkeypatch.setattr("fate_flow.cli.console.display._columns", lambda: columns)
    return flow(*command, "--table").stdout.splitlines()


def waiting(place, reason, *cores, **more):
    asked = [{**party, "asked_cores": n} for party, n in zip((GUEST, HOST), cores, strict=True)]
    return {"job_id": ID, "place_in_queue": place, "wait_reason": reason, "parties": asked, **more}


QUEUE = {"count": 3, "jobs": [
    waiting(1, "host 10000 has 2 of 8 cores free, 4 asked; 1st in the queue", 4, 4, name="monthly churn model"),
    waiting(2, "waits for its turn; 2nd in the queue", 4, 4, estimate_seconds=0),
    waiting(3, "on hold by alice: no data yet; 3rd in the queue", 4, 12, name="psi", priority=3, passed_by=1),
]}  # fmt: skip


@pytest.mark.parametrize(("columns", "lines"), [
    (80, [
        f"  {'job':25}  place  name                 cores    starts in",
        f"  {ID}  1      monthly churn model  4 each",
        "      host 10000 has 2 of 8 cores free, 4 asked",
        f"  {ID}  2                           4 each   now",
        "      waits for its turn",
        f"  {ID}  3      psi                  4 to 12",
        "      on hold by alice: no data yet; priority 3; passed by 1 job; asks for 4 at",
        "      guest-9999, 12 at host-10000",
    ]),
    (120, [
        f"  {'job':25}  place  name                 cores    starts in  waits for",
        f"  {ID}  1      monthly churn model  4 each              host 10000 has 2 of 8 cores free, 4 asked",
        f"  {ID}  2                           4 each   now        waits for its turn",
        f"  {ID}  3      psi                  4 to 12             on hold by alice: no data yet; priority 3;",
        f"{'':77}passed by 1 job; asks for 4 at guest-9999,",
        f"{'':77}12 at host-10000",
    ]),
])  # fmt: skip
def test_a_job_of_the_queue_has_a_line_and_what_it_waits_for_one_more(flow, stub, monkeypatch, columns, lines):
    assert shown(flow, stub, monkeypatch, columns, ("queue", "list"), QUEUE) == ["3 jobs wait", *lines]


def seen_moves():
    rest = {"component_name": "intersection_0", "task_version": 0, "old": "running"}
    moves = [
        {"time": NOON, "level": "party task", **HOST, **rest, "new": "failed", **BROKEN, "caused_by": "host 10000"},
        {"time": NOON, "level": "task", **rest, "new": "stopping", **BROKEN, "caused_by": "host 10000"},
        {"time": NOON, "level": "worker", **GUEST, **rest, "new": "exited", "reason": "stopped"},
    ]
    return [{**move, "seen_by": one} for move in moves for one in ("9999", "10000", "10001")]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_move_is_a_line_and_why_stands_below_where_that_is_shorter(flow, stub, monkeypatch, columns):
    parties = [{"party_id": one, "asked": "answered"} for one in ("10000", "10001")]
    command = ("job", "history", "-j", ID)
    _, *lines = shown(flow, stub, monkeypatch, columns, command, {"moves": seen_moves(), "parties": parties})
    found = [line for line in lines if not line.startswith("      ")]
    assert found == [
        "  time          what                              from     to        seen by",
        "  12:00:00.000  task intersection_0 host-10000    running  failed    all",
        "  12:00:00.000  task intersection_0               running  stopping  all",
        "  12:00:00.000  worker intersection_0 guest-9999  running  exited    all",
    ]
    below = " ".join(line.strip() for line in lines if line.startswith("      "))
    why = f"worker_error: {CAUSE} (by host-10000)"
    assert below == f"{why} {why} stopped"


def test_a_move_that_not_all_have_seen_names_who_has(flow, stub, monkeypatch):
    parties = [{"party_id": "10000", "asked": "answered"}, {"party_id": "10001", "asked": "no answer"}]
    moves = [move for move in seen_moves()[:3] if move["seen_by"] != "10001"]
    document = {"moves": moves, "parties": parties}
    _, _, line, *_ = shown(flow, stub, monkeypatch, 80, ("job", "history", "-j", ID), document)
    assert line.endswith("  failed  9999, 10000")


def test_a_move_that_two_parties_have_seen_is_one_line(flow, stub):
    seen = [("9999", NOON), ("10000", NOON + 85), ("9999", NOON + 2000), ("10000", NOON + 2085)]
    moves = [{"time": at, "level": "task", "role": None, "component_name": "total", "task_version": 0, "old": "waiting",
              "new": "running", "seen_by": one} for one, at in seen]
    moves.append({**moves[-1], "time": NOON + 3000, "new": "failed", "seen_by": "9999"})
    stub.answers(answer({"moves": moves, "parties": [{"party_id": "10000", "asked": "answered", "message": ""}]}))
    day, _, *lines = flow("job", "history", "--table", "-j", ID).stdout.splitlines()
    assert day == f"{YEAR}-11-22"
    assert [re.split(" {3,}", line.strip()) for line in lines] == [
        ["12:00:00.000", "task total", "waiting", "running", "all"],
        ["12:00:02.000", "task total", "waiting", "running", "all"],
        ["12:00:03.000", "task total", "waiting", "failed", "9999"],
    ]


@pytest.mark.long
def test_a_person_who_watches_reads_no_json(stub, tmp_path):
    (tmp_path / "conf.json").write_text("{}")
    end = {"status": "success", "reason": None, "message": "", "parties": [], "tasks": [], "name": "monthly totals"}
    accepted = {**answer({"code": 0, "warnings": ["x: is ignored"]}), "jobId": "42"}
    stub.answers(accepted, answer(end))
    shown, described = on_a_terminal(stub, "job", "submit", "-c", "conf.json", "--watch", cwd=tmp_path)
    assert shown == ""
    assert described.splitlines() == [
        "job 42 is submitted", "warning: x: is ignored", "job 42 (monthly totals): success",
        "job 42 (monthly totals): success",
    ]
    stub.answers(accepted)
    shown, _ = on_a_terminal(stub, "job", "submit", "-c", "conf.json", cwd=tmp_path)
    assert json.loads(shown) == accepted


def test_counts_times_and_reasons():
    assert [counted(0, "job"), counted(1, "job"), counted(2, "job waits", "jobs wait")] == [
        "0 jobs", "1 job", "2 jobs wait"]
    assert [duration(one) for one in (None, 900, 61_499, 3_725_000, 180_000_000)] == [
        "", "0.9 s", "1 min 01 s", "1 h 02 min", "2 d 02 h"]
    now = datetime(YEAR, 12, 1).astimezone()
    assert [short_moment(NOON, now), short_moment(NOON, now.replace(year=YEAR + 1)), short_moment(0, now)] == [
        "11-22 12:00", f"{YEAR}-11-22", ""]
    assert [clock(NOON, NOON + 5), clock(NOON, NOON - 86_400_000)] == ["12:00:00", f"{YEAR}-11-22 12:00:00"]
    assert reason_text("task_failed", "a failed on guest 1: x") == "a failed on guest 1: x"
    assert [reason_text("task_failed", ""), reason_text("done", "")] == ["task_failed", ""]


def test_why_a_job_was_stopped_is_not_said_again_of_each_task(flow, stub):
    why = {"reason": "stopped_by_user", "message": "stopped by a user at party 9999", "caused_by": "guest 9999"}
    of_share = {"reason": "stopped_by_user", "caused_by": "guest 9999"}
    tasks = [{"component_name": name, "task_version": 0, "status": "canceled", **why, "parties": [
        share(GUEST, "canceled", **of_share), share(HOST, "canceled", **of_share)]} for name in ("read", "total")]
    stub.answers(answer(explained(status="canceled", **why, **GUEST, tasks=tasks, parties=[])))
    lines = flow("job", "explain", "--table", "-j", ID).stdout.splitlines()
    assert lines[0] == f"job {ID} (monthly totals): canceled: stopped by a user at party 9999"
    assert [line.split() for line in lines[4:]] == [
        ["read", "canceled", "guest-9999", "canceled"], ["host-10000", "canceled"],
        ["total", "canceled", "guest-9999", "canceled"], ["host-10000", "canceled"],
    ]
