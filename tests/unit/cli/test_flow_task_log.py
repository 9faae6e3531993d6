"""flow task log: what a worker has printed, which versions there are, and -f."""

from __future__ import annotations

import pytest

J = ("task", "log", "-j", "42", "-cpn", "train")
RUNNING = {
    "task_version": 1, "worker": 0, "attempt": 0, "status": "running", "reason": None, "message": "",
    "exit_status": "", "text": "a\n", "bytes": 2, "next_offset": 2, "attempts": [],
    "versions": [{"task_version": 0, "reason": "worker_error"}, {"task_version": 1, "reason": None}],
}  # fmt: skip
EXITED = {**RUNNING, "status": "exited", "exit_status": "exit code 0", "reason": "done"}


def answer(**said):
    return {"retcode": 0, "retmsg": "success", "data": said}


def test_a_task_that_began_again_says_how_to_see_the_version_that_failed(flow, stub):
    stub.answers(answer(**RUNNING))
    shown = flow(*J)
    assert (shown.stdout, shown.stderr) == ("a\n", "version 1 of the task; earlier: -v 0 (worker_error)\n")
    stub.answers(answer(**{**RUNNING, "task_version": 0}))
    assert flow(*J, "-v", "0").stderr == ""


def test_what_is_printed_is_shown_as_it_comes_until_the_worker_has_exited(flow, stub, pauses):
    stub.answers(
        answer(**RUNNING), answer(**RUNNING | {"text": ""}),
        answer(**RUNNING | {"text": "b", "bytes": 9, "next_offset": 3}),
        answer(**RUNNING | {"text": "cdefgh", "bytes": 9, "next_offset": 9}),
        answer(**EXITED | {"text": "", "bytes": 9, "next_offset": 9}),
    )
    shown = flow(*J, "-f")
    assert (shown.exit_code, shown.stdout) == (0, "a\nbcdefgh")
    assert shown.stderr.splitlines()[-1] == "the worker has exited: exit code 0"
    assert [one.json.get("offset") for one in stub.asked] == [None, 2, 2, 3, 9]
    assert len(pauses) == 3, "what is there already is not waited for"


def test_the_process_that_takes_its_place_is_followed_from_its_beginning(flow, stub):
    missing = {"retcode": 101, "retmsg": "attempt 0 of worker 0 of train has not begun"}
    newer = EXITED | {"task_version": 2, "text": "new\n", "bytes": 4, "next_offset": 4}
    stub.answers(answer(**RUNNING), missing, answer(**newer), answer(**EXITED | {"text": "z\n"}), answer(**newer))
    shown = flow(*J, "-f")
    assert (shown.exit_code, shown.stdout) == (0, "a\nz\nnew\n")
    assert "version 2, attempt 0 begins" in shown.stderr
    assert stub.asked[3].json["task_version"] == 1
    assert stub.last.json["offset"] == 0


@pytest.mark.parametrize("said", [{"retcode": 101, "retmsg": "train of job 42 has no worker on guest 9999"},
                                  answer(**{key: value for key, value in RUNNING.items() if key != "next_offset"})])
def test_what_cannot_be_followed_is_an_error(flow, stub, said):
    stub.answers(said)
    assert flow(*J, "-f").exit_code == 1
    assert len(stub.asked) == 1


def test_one_answer_as_json_is_not_followed(flow, stub):
    assert flow(*J, "-f", "--json").exit_code == 2
    assert stub.asked == []
