"""flow job explain and flow party list, for people and as JSON."""

from __future__ import annotations

import json

import pytest

WAITING = {
    "status": "waiting", "reason": None, "message": "", "place_in_queue": 3,
    "wait_reason": "host 10000 has 2 of 8 cores free, 4 asked; 3rd in the queue",
    "parties": [
        {"role": "guest", "party_id": "9999", "status": "held", "message": "", "asked_cores": 4, "free_cores": 16},
        {"role": "host", "party_id": "10000", "status": "joined", "message": "2 of 8 cores free",
         "asked_cores": 4, "free_cores": 2},
    ],
    "tasks": [{"component_name": "psi_0", "task_version": 0, "status": "waiting", "parties": [
        {"role": "guest", "party_id": "9999", "status": "waiting", "reason": None, "message": ""},
        {"role": "host", "party_id": "10000", "status": "waiting", "reason": None, "message": ""},
    ]}],
    "unconfirmed_parties": [],
}


NOON = 1_699_963_200_000           # on 2023-11-14, in UTC


def answer(data):
    return {"retcode": 0, "retmsg": "success", "data": data}


def test_a_waiting_job_says_why(flow, stub):
    stub.answers(answer(WAITING))
    result = flow("job", "explain", "--table", "-j", "42")
    assert result.exit_code == 0
    assert result.stdout == """\
job 42: waiting
why it waits: host 10000 has 2 of 8 cores free, 4 asked; 3rd in the queue

  party        state            cores asked   cores free   message
  guest-9999   cores reserved   4             16
  host-10000   accepted         4             2            2 of 8 cores free

  task    status    party        there     started   took   why
  psi_0   waiting   guest-9999   waiting
                    host-10000   waiting
"""


def test_a_job_and_a_task_that_start_again_are_restarting(flow, stub):
    again = {"status": "running", "status_detail": "restarting"}
    waits_for = "psi_0 begins again as version 1 when host 10000 has stopped"
    stub.answers(answer({**WAITING, **again, "wait_reason": waits_for, "place_in_queue": None, "parties": [], "tasks": [
        {**WAITING["tasks"][0], **again},
    ]}))
    lines = flow("job", "explain", "--table", "-j", "42").stdout.splitlines()
    assert lines[:2] == ["job 42: restarting", f"why it waits: {waits_for}"]
    assert lines[4].split()[:4] == ["psi_0", "restarting", "guest-9999", "waiting"]


def test_tasks_on_several_engines_say_on_which(flow, stub):
    ask = {"memory": 0, "gpus": 0, "is_held": True}
    own = {"role": "guest", "party_id": "9999", "status": "running", "reason": None, "message": ""}
    stub.answers(answer({
        "status": "running",
        "parties": [{"role": "guest", "party_id": "9999", "status": "started", "message": "", "asked_cores": 5,
                     "engines": [{**ask, "engine": "local", "cores": 2},
                                 {**ask, "engine": "slurm", "cores": 3, "memory": 64, "gpus": 1}]}],
        "tasks": [
            {"component_name": "psi_0", "status": "running", "parties": [{**own, "engine": "local"}]},
            {"component_name": "lr_0", "status": "running", "parties": [
                {**own, "engine": "slurm"}, {**own, "role": "host", "party_id": "10000", "engine": None},
            ]},
        ],
    }))  # fmt: skip
    lines = [" ".join(line.split()) for line in flow("job", "explain", "--table", "-j", "42").stdout.splitlines()]
    assert lines[-6:] == [
        "guest-9999 asks for 2 cores of engine local, 3 cores and 64 MB of memory and 1 GPU of engine slurm", "",
        "task status party there engine started took why",
        "psi_0 running guest-9999 running local",
        "lr_0 running guest-9999 running slurm", "host-10000 running",
    ]


def test_the_history_has_a_line_for_each_move(flow, stub):
    stub.answers(answer({"moves": [
        {"time": 0, "level": "job", "role": "guest", "party_id": "9999", "component_name": None, "old": None,
         "new": "ready", "reason": None, "message": "", "caused_by": "guest 9999", "exit_status": None},
        {"time": 1234, "level": "worker", "role": "host", "party_id": "10000", "component_name": "psi_0",
         "task_version": 1, "old": "running", "new": "exited", "reason": None, "message": "no \x1b memory",
         "caused_by": None, "exit_status": "signal 9"},
    ]}))
    day, head, first, second = flow("job", "history", "--table", "-j", "42").stdout.splitlines()
    assert day[:3] in ("197", "196")
    assert head.split() == ["time", "what", "from", "to", "why"]
    assert first.split()[1:] == ["job", "guest-9999", "ready"]
    assert ":01.234" in second
    assert "worker psi_0 #1 host-10000   running   exited   signal 9: no ? memory" in second


def test_the_history_of_all_parties_says_who_has_seen_what_and_who_was_not_asked(flow, stub):
    move = {"time": 0, "level": "job", "role": "host", "party_id": "10000", "new": "ready", "seen_by": "10000"}
    parties = [{"party_id": "10000", "asked": "answered", "message": ""},
               {"party_id": "10001", "asked": "not asked", "message": "it speaks plain v1"}]
    stub.answers(answer({"moves": [move], "parties": parties}))
    _, head, first, last = flow("job", "history", "--table", "-j", "42").stdout.splitlines()
    assert head.split() == ["time", "what", "from", "to", "seen", "by", "why"]
    assert first.split()[-1] == "10000"
    assert last == "party 10001: not asked: it speaks plain v1"


@pytest.mark.parametrize(("count", "said"), [
    (2, "passed by: job 44 (sums), job 43"), (12, "passed by: 12 later jobs, last job 44 (sums), job 43"),
])
def test_a_waiting_job_says_who_has_passed_it(flow, stub, count, said):
    passers = [{"job_id": "44", "name": "sums"}, {"job_id": "43", "name": ""}]
    stub.answers(answer({**WAITING, "passed_by": count, "passers": passers}))
    assert f"\n{said}\n" in flow("job", "explain", "--table", "-j", "42").stdout


def test_a_job_without_a_reason_says_its_place(flow, stub):
    stub.answers(answer({"status": "waiting", "place_in_queue": 2}))
    assert "why it waits: 2nd in the queue\n" in flow("job", "explain", "--table", "-j", "42").stdout


def test_a_job_that_ended_says_how(flow, stub):
    stub.answers(answer({
        "status": "failed", "reason": "task_failed", "message": "psi_0\nfailed \x1b[31m", "place_in_queue": 0,
        "unconfirmed_parties": [{"role": "host", "party_id": "10000"}, "host-10001"],
        "tasks": [{"component_name": "psi_0", "task_version": 1, "status": "failed", "parties": [
            {"role": "host", "party_id": "10000", "status": "failed", "reason": "worker_error",
             "message": "no id column"}]}],
    }))
    lines = flow("job", "explain", "--table", "-j", "42").stdout.splitlines()
    assert lines[:2] == [
        "job 42: failed: psi_0 failed ?[31m", "parties that did not confirm the end: host-10000, host-10001"]
    assert lines[-1].split("   ")[-1].strip() == "worker_error: no id column"


def test_a_task_says_how_it_ended_over_all_its_parties_and_by_whom_and_so_do_the_workers_that_ended_badly(flow, stub):
    workers = [
        {"worker": 0, "rank": 0, "status": "running", "reason": None, "message": "", "exit_status": ""},
        {"worker": 1, "rank": 1, "status": "exited", "reason": "worker_error", "message": "no gradient",
         "exit_status": "exit code 3", "caused_by": "guest 9999"},
        {"worker": 2, "rank": 2, "attempt": 1, "status": "running", "reason": None, "message": "", "exit_status": ""},
        {"worker": 4, "rank": None, "status": "exited", "reason": "cores_lent", "message": "", "exit_status": "",
         "caused_by": "guest 9999"},
        {"worker": None, "rank": None, "status": "exited", "reason": "stopped", "message": "", "exit_status": "",
         "caused_by": "host 10000"},
    ]
    guest = {"role": "guest", "party_id": "9999", "status": "failed", "reason": "worker_error", "message": "rank 1: no",
             "caused_by": "guest 9999", "workers": workers, "elastic": {"most": 3, "running": 1, "lent": 2}}
    host = {"role": "host", "party_id": "10000", "status": "canceled", "reason": "stopped", "message": "",
            "caused_by": "guest 9999", "workers": [], "elastic": None}
    task = {"component_name": "train", "task_version": 0, "status": "failed", "reason": "worker_error",
            "message": "rank 1: no", "caused_by": "guest 9999", "parties": [guest, host]}
    stub.answers(answer({
        "status": "failed", "reason": "task_failed", "message": "it broke", "caused_by": "guest 9999", "tasks": [task]
    }))
    first, _, *table = flow("job", "explain", "--table", "-j", "42").stdout.splitlines()
    assert first == "job 42: failed: it broke (by guest-9999)"
    assert [" ".join(line.split()) for line in table[1:]] == [
        "train failed guest-9999 failed worker_error: rank 1: no",
        "elastic workers 1 of 3 run, 2 lent",
        "worker 1 (rank 1) exited worker_error: no gradient: exit code 3",
        "worker 2 (rank 2), attempt 1 running",
        "worker 4 exited cores_lent",
        "output collector exited stopped (by host-10000)",
        "host-10000 canceled stopped (by guest-9999)",
    ]


def test_a_policy_that_acts_later_says_what_when_and_after_what(flow, stub):
    later = {"action": "cancel_job", "seconds": 36.7, "event": "worker_failed", "component_name": "train",
             "role": "host", "party_id": "10001"}
    silent = {"action": "fail_job", "seconds": 5, "event": "party_unreachable", "component_name": None,
              "role": "host", "party_id": "10000"}
    stub.answers(answer({"status": "running", "pending_policies": [later, silent]}))
    assert flow("job", "explain", "--table", "-j", "42").stdout.splitlines() == [
        "job 42: running", "cancel_job in 37 s, after worker_failed of train on host-10001",
        "fail_job in 5 s, after party_unreachable on host-10000"]


def test_a_task_that_is_to_begin_again_says_how_it_ended_before(flow, stub):
    party = {"role": "guest", "party_id": "9999", "status": "waiting", "reason": None, "message": ""}
    last = {"task_version": 0, "role": "host", "party_id": "10000", "status": "failed", "reason": "worker_error",
            "message": "no id column"}
    tasks = [{"component_name": "psi_0", "task_version": 1, "status": "waiting", "parties": [party],
              "last_version": last}]
    stub.answers(answer({"status": "waiting", "tasks": tasks}))
    *_, now, before = flow("job", "explain", "--table", "-j", "42").stdout.splitlines()
    assert now.split() == ["psi_0", "#1", "waiting", "guest-9999", "waiting"]
    assert before.split() == ["psi_0", "#0", "failed", "host-10000", "failed", "worker_error:", "no", "id", "column"]


def test_what_went_well_needs_no_reason(flow, stub):
    party = {"role": "guest", "party_id": "9999", "status": "success", "reason": "done", "message": ""}
    tasks = [{"component_name": "psi_0", "task_version": 1, "status": "success", "parties": [party]}]
    stub.answers(answer({"status": "success", "reason": "done", "message": "", "tasks": tasks}))
    lines = flow("job", "explain", "--table", "-j", "42").stdout.splitlines()
    assert (lines[0], lines[-1].split()) == ("job 42: success", ["psi_0", "#1", "success", "guest-9999", "success"])


def test_an_explanation_can_be_had_as_json(flow, stub):
    stub.answers(answer(WAITING))
    assert json.loads(flow("job", "explain", "-j", "42", "--json").stdout) == answer(WAITING)


def test_an_unknown_job_is_an_error(flow, stub):
    stub.answers({"retcode": 102, "retmsg": "can not found job"})
    result = flow("job", "explain", "--table", "-j", "42")
    assert (result.exit_code, result.stderr) == (1, "Error: can not found job\n")
    assert json.loads(result.stdout)["retcode"] == 102


def test_parties_are_a_table(flow, stub):
    stub.answers(answer({"parties": [
        {"party_id": "9999", "url": "http://127.0.0.1:9380", "status": "answers", "circuit": "closed"},
        {"party_id": "10000", "url": "http://127.0.0.1:9381", "status": "silent", "circuit": "open", "message": "9 s",
         "problem": "clock"},
    ]}))
    result = flow("party", "list", "--table")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "  party_id   url                     status    problem   circuit   message",
        "  9999       http://127.0.0.1:9380   answers             closed",
        "  10000      http://127.0.0.1:9381   silent    clock     open      9 s",
    ]


def test_the_queue_is_a_table(flow, stub):
    party = {"role": "guest", "party_id": "9999", "asked_cores": 4}
    stub.answers(answer({
        "count": 7, "hold": {"by": "ann", "message": "mainte\nnance", "time": 5},
        "jobs": [
            {"place_in_queue": 1, "job_id": "42", "name": "totals", "priority": 0, "parties": [party], "passed_by": 2,
             "passers": [{"job_id": "45", "name": "sums"}, {"job_id": "46", "name": ""}],
             "create_time": NOON, "estimate_seconds": 0, "wait_reason": "waits for its turn; 1st in the queue"},
            {"place_in_queue": 2, "job_id": "43", "priority": 3, "passed_by": 0,
             "parties": [party, {**party, "party_id": "9998"}],
             "estimate_seconds": None, "wait_reason": "no capacity; 2nd in the queue"},
        ],
        "unapproved_count": 1200,
        "unapproved": [{"job_id": "44", "role": "guest", "party_id": "9999", "asked_cores": 2, "digest": "0a" * 32,
                        "create_time": NOON, "name": "audit", "initiator": {"role": "host", "party_id": "10000"}}],
    }))
    assert flow("queue", "list", "--table").stdout == """\
this party is on hold by ann: mainte nance
7 jobs wait, 2 of them shown
  job   place   name     created      cores    starts in   waits for
  42    1       totals   2023-11-14   4        now         waits for its turn; passed by 2 jobs, last by job 45 (sums)
  43    2                             4 each               no capacity; priority 3
1200 jobs of other initiators need an approval here, the first 1 of them shown (flow job approve, flow job reject):
  job   name    created      initiator    as           cores   document
  44    audit   2023-11-14   host-10000   guest-9999   2       0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a
"""
    assert (stub.last.path, stub.last.json) == ("/v1/queue/list", {"limit": 50, "page": 1})


def test_an_empty_queue_is_one_line(flow, stub):
    stub.answers(answer({"count": 0, "hold": None, "jobs": [], "unapproved": []}))
    assert flow("queue", "list", "--table").stdout == "no job waits\n"
