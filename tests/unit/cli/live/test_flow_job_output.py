"""flow job log -f: what all workers of a job print, at all parties that show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.cli.stub_server import Asked, Reply, Stub

J = ("job", "log", "-j", "42", "-f")
NOT_SHARED = "commands.share_logs is false at host 10000: only its own server shows the output of its workers"


class Server:
    """A job of two parties, whose workers print more from look to look."""

    def __init__(
        self, stub: Stub, looks: list[tuple[str, str, str]], printed: Mapping[tuple[str, int, str], list[str]]
    ) -> None:
        """`looks`: the status of the job, and of its task at guest and host. `printed`: by party, worker and stream,
        all that is there at each look."""
        self.looks, self.printed, self.number = looks, printed, -1
        stub.answers(self.answer)

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/v1/job/explain":
            self.number += 1
            return self.reply(self.state())
        body = asked.json
        texts = self.printed.get((body["party_id"], body["worker"], body["stream"]))
        if texts is None:
            if body["party_id"] == "10000":
                return Reply(body={"retcode": 108, "retmsg": NOT_SHARED})
            return Reply(body={"retcode": 101, "retmsg": "worker: train has no worker 1; it has 0 to 0"})
        text = texts[min(self.number, len(texts) - 1)]
        piece = text[body["offset"]:][:5]                # an answer has a part of a long text
        return self.reply({
            "task_version": 0, "attempt": 0, "status": "running", "text": piece, "bytes": len(text),
            "next_offset": body["offset"] + len(piece),
        })  # fmt: skip

    def state(self) -> dict[str, Any]:
        job, guest, host = self.looks[min(self.number, len(self.looks) - 1)]
        return {
            "job_id": "42", "name": "night", "status": job, "reason": None, "message": "", "tasks": [{
                "component_name": "train", "task_version": 0, "status": guest, "parties": [
                    {"role": "guest", "party_id": "9999", "status": guest},
                    {"role": "host", "party_id": "10000", "status": host},
                ],
            }],
        }  # fmt: skip

    @staticmethod
    def reply(data: Mapping[str, Any]) -> Reply:
        return Reply(body={"retcode": 0, "retmsg": "success", "data": data})


LOOKS = [("waiting", "waiting", "waiting"), ("running", "running", "running"), ("success", "success", "success")]


def test_lines_of_all_workers_are_printed_with_their_names(flow, stub, pauses):
    Server(stub, LOOKS, {
        ("9999", 0, "stdout"): ["", "one\ntw", "one\ntwo\nthe end"], ("9999", 0, "stderr"): [""],
        ("9999", 1, "stdout"): ["", "", "second\n"], ("9999", 1, "stderr"): [""],
        ("10000", 0, "stdout"): [""], ("10000", 0, "stderr"): ["", "a warning\n"],
    })  # fmt: skip
    result = flow(*J)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "train guest-9999 | one", "train host-10000 | a warning", "train guest-9999 | two",
        "train guest-9999 | the end", "train guest-9999 worker 1 | second",
    ]
    assert result.stderr.splitlines() == ["job 42 (night): success"]
    assert len(pauses) == 2


def test_a_party_that_does_not_share_is_named_once(flow, stub):
    Server(stub, [*LOOKS[:2], *LOOKS[1:]], {("9999", 0, "stdout"): ["", "", "done\n"], ("9999", 0, "stderr"): [""]})
    result = flow(*J)
    assert result.stdout.splitlines() == ["train guest-9999 | done"]
    assert result.stderr.count(NOT_SHARED) == 1


def test_nobody_is_asked_about_a_task_that_has_not_begun(flow, stub):
    printed = {("9999", 0, stream): [""] for stream in ("stdout", "stderr")}
    Server(stub, [LOOKS[0], ("canceled", "canceled", "pass")], printed)
    flow(*J)
    asked = {one.json["party_id"] for one in stub.asked if one.path == "/v1/task/log"}
    assert asked == {"9999"}


@pytest.mark.parametrize("options", [("-j", "42"), ("-j", "42", "-f", "-o", ".")])
def test_it_downloads_or_follows(flow, options):
    result = flow("job", "log", *options)
    assert result.exit_code == 2
    assert "give either -o, for a folder, or -f" in result.stderr
