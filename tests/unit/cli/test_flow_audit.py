"""`flow audit`: the record of a party, read through its server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.audit.record_reports import ACCUSED, BROKEN, NOT_ANCHORED
from fate_flow.cli.connection.client import Client, NoAnswer
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.flow.main import flow as flow_command
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.record.checkpoint import read_checkpoint
from fate_flow.core.record.offline.bundle import read_bundle
from fate_flow.core.wire.v1.witnessing import LogPart
from fate_flow.services.record.checkpoints import sign_heads
from fate_flow.services.record.following import newest_position
from tests.kit.api.client_world import START, World
from tests.kit.api.recorded_world import JOB, record_job, recorded_world, their_file
from tests.kit.services.records import SIGNER, salts
from tests.kit.store.sealed_meanwhile import seal_while_read


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = recorded_world(tmp_path)
    yield world
    world.store.close()


class Through(Client):
    """A client that asks the application itself."""

    def __init__(self, world: World) -> None:
        super().__init__(lambda: Address("http://server"))
        self._world = world
        self.failures: list[NoAnswer | ServerReply | None] = []      # of the next requests; None: it works

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> ServerReply:
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, NoAnswer):
            raise failure
        if failure is not None:
            return failure
        answer = self._world.post(path, body, headers=dict(headers or {}))
        return ServerReply(answer.status_code, answer.json)


def flow(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(flow_command, ["audit", *arguments], obj=Through(world))


def test_a_job_is_shown_as_on_the_machine_of_the_server(world: World) -> None:
    found = flow(world, "show", "-j", JOB)

    assert found.exit_code == 0, found.output
    for text in ("alice: submitted", "to party 10000: start host 10000", "party 10000 has answered 0", "own #0"):
        assert text in found.stdout
    documents = json.loads(flow(world, "show", "-j", JOB, "--as", "json").stdout)["entries"]
    assert [json.loads(one["entry"])["kind"] for one in documents].count("status") == 4


def test_a_job_is_drawn_and_nothing_in_it_breaks_the_drawing(world: World) -> None:
    drawing = ElementTree.fromstring(flow(world, "show", "-j", JOB, "--as", "svg").stdout)
    texts = [one.text or "" for one in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["party 9999", "party 10000"]
    assert any("no <table> & nothing else" in one for one in texts)
    assert any(one.endswith("start host 10000") for one in texts)

    lines = flow(world, "show", "-j", JOB, "--as", "mermaid").stdout.splitlines()
    assert sum("P9999->>P10000:" in line for line in lines) == 1


def test_the_walk_through_of_fate_is_printed_from_the_record(world: World) -> None:
    lines = flow(world, "show", "-j", JOB, "--as", "fate-logs").stdout.splitlines()

    texts = [line.partition("]: ")[2] for line in lines]
    assert all(line.startswith("[INFO] [") and "- record[line:" in line for line in lines)
    assert texts == [
        f"submit job successfully, job id is {JOB}, model id is ",
        "remote http api request: party 10000: start host 10000",
        "remote http api response: start host 10000 {'retcode': 0}",
        f"try to start job {JOB} on guest 9999",
        f"try to update job {JOB} status to running",
        f"update job {JOB} status successfully",
        f"start job {JOB} on guest 9999 successfully",
        f"job {JOB} task {JOB}_a 0 on guest 9999 executor subprocess start success",
        f"try to update job {JOB} task {JOB}_a 0 status",
        f"update job {JOB} task {JOB}_a 0 status successfully: {{'party_status': 'failed'}}",
        f"try to update job {JOB} status to failed",
        f"update job {JOB} status successfully",
        f"Job {JOB} finished with failed, done",
    ]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), 7), (("--kind", "status"), 4), (("-p", "10000"), 2), (("--person", "alice"), 1),
        (("--person", "bob"), 0), (("--status", "failed"), 2), (("--since", "2100-01-01"), 0),
        (("--until", "2020-01-01"), 0), (("--until", "2100-01-01"), 7),
    ],
)  # fmt: skip
def test_entries_are_found_by_what_they_say(world: World, options: tuple[str, ...], count: int) -> None:
    found = flow(world, "search", "--as", "json", *options)
    assert (found.exit_code, len(json.loads(found.stdout)["entries"])) == (0, count)


def test_the_whole_record_is_exported_as_lines_of_json(world: World) -> None:
    lines = [json.loads(line) for line in flow(world, "search", "--as", "lines").stdout.splitlines()]
    shown = json.loads(flow(world, "search", "--as", "json").stdout)["entries"]
    assert (lines, len(lines)) == (shown, 7)


def test_a_search_goes_on_where_an_answer_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.services.record.reading.search.__defaults__", (0, 2))
    assert len(json.loads(flow(world, "search", "--as", "json").stdout)["entries"]) == 7


def test_what_nobody_has_recorded_is_refused(world: World) -> None:
    found = flow(world, "show", "-j", "202311142213200000009")
    assert found.exit_code == 1
    assert "nothing is recorded about job 202311142213200000009" in found.output


def test_the_logs_are_verified_by_the_server(world: World) -> None:
    found = flow(world, "verify")
    assert (found.exit_code, found.stdout.count("consistent in itself")) == (NOT_ANCHORED, 2)
    assert "no record key" in found.stderr

    world.write("t_record_entry", {"f_log": "own", "f_index": 1}, f_content="{}")
    found = flow(world, "verify", "--json")
    assert found.exit_code == BROKEN
    assert json.loads(found.stdout)["logs"][0]["broken_at"] == 1


def test_a_record_that_grows_meanwhile_is_not_called_broken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = seal_while_read(monkeypatch, signs=True)
    found = flow(world, "verify")
    assert (found.exit_code, "BROKEN" in found.stdout) == (NOT_ANCHORED, False), found.stdout
    assert grown


def test_the_server_asks_the_other_parties_if_it_is_told_to(world: World, tmp_path: Path) -> None:
    their_file(world, tmp_path, Answer(0))           # saves the key list of party 10000
    object.__setattr__(world.services.context, "routes", frozenset({"10000"}))
    asked: list[str] = []

    def ask(to: Party, *_: object) -> Answer:
        asked.append(to.party_id)
        return Answer(UNREACHABLE, "it sleeps")

    object.__setattr__(world.services, "ask_party", ask)
    assert "has not said" not in flow(world, "verify").stderr
    assert asked == []
    found = flow(world, "verify", "--ask")
    assert (found.exit_code, asked) == (NOT_ANCHORED, ["10000"])
    assert "party 10000 has not said what it holds: it sleeps" in found.stderr


def test_too_many_entries_are_verified_on_the_machine_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.services.record.anchoring.MOST_VERIFIED", 3)
    found = flow(world, "verify")
    assert (found.exit_code, "use fate_flow audit verify on the machine" in found.output) == (1, True)


@pytest.mark.parametrize(("answer", "code"), [(Answer(0), 0), (Answer(103, "another answer"), ACCUSED)])
def test_the_logs_of_two_parties_are_compared(world: World, tmp_path: Path, answer: Answer, code: int) -> None:
    file = tmp_path / "from-10000.proof"
    file.write_text(their_file(world, tmp_path, answer), encoding="utf-8")
    found = flow(world, "reconcile", str(file), "-p", "10000", "--json")

    assert found.exit_code == code, found.output
    counts = json.loads(found.stdout)["counts"]
    assert (counts["agreed"], counts["altered"]) == ((1, 0) if code == 0 else (0, 1))


@pytest.mark.parametrize(("answer", "code"), [(Answer(0), 0), (Answer(103, "another answer"), ACCUSED)])
@pytest.mark.parametrize("options", [("-p", "10000"), ("-j", JOB)])
def test_the_server_asks_the_other_party_for_its_log(
    world: World, tmp_path: Path, answer: Answer, code: int, options: tuple[str, ...]
) -> None:
    entries = read_bundle(their_file(world, tmp_path, answer)).entries
    handed = LogPart([1], 1, str(entries[0].proof.checkpoint), [one.content.decode() for one in entries])
    world.peers.answers["/party/record/log"] = Answer(data=handed.as_data())
    found = flow(world, "reconcile", *options, "--json")

    assert found.exit_code == code, found.output
    counts = json.loads(found.stdout)["counts"]
    assert (counts["agreed"], counts["altered"]) == ((1, 0) if code == 0 else (0, 1))
    world.peers.answers["/party/record/log"] = Answer(data=replace(handed, entries=handed.entries[1:]).as_data())
    found = flow(world, "reconcile", *options)
    assert "does not hand out entry 0 of epoch 1" in found.output
    assert found.exit_code == (1 if options[0] == "-p" else NOT_ANCHORED)


def test_the_server_shows_the_other_side_beside_a_job(world: World, tmp_path: Path) -> None:
    entries = read_bundle(their_file(world, tmp_path, Answer(0))).entries
    handed = LogPart([1], 1, str(entries[0].proof.checkpoint), [one.content.decode() for one in entries])
    world.peers.answers["/party/record/log"] = Answer(data=handed.as_data())
    found = flow(world, "show", "-j", JOB, "--ask")
    assert (found.exit_code, found.stdout.count("parties 9999 and 10000")) == (0, 2), found.output
    world.peers.answers["/party/record/log"] = Answer(UNREACHABLE, "it sleeps")
    found = flow(world, "show", "-j", JOB, "--ask")
    assert "the log of party 10000 is not beside it: party 10000 does not hand out its log: it sleeps" in found.stderr


def test_one_of_a_party_and_a_job_is_compared(world: World) -> None:
    for body, text in (
        ({}, "one of job_id and party_id"), ({"job_id": JOB, "party_id": "10000"}, "one of job_id and party_id"),
        ({"job_id": JOB, "file": "x"}, "file: has the log of one party"),
    ):
        assert text in world.ask("record/reconcile", body)["retmsg"]


def test_a_file_that_is_none_is_refused(world: World, tmp_path: Path) -> None:
    their_file(world, tmp_path, Answer())
    (tmp_path / "file").write_text("{", encoding="utf-8")
    found = flow(world, "reconcile", str(tmp_path / "file"), "-p", "10000")
    assert (found.exit_code, "file: the file is no JSON" in found.output) == (1, True)


def test_an_answer_of_another_form_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Through, "post", lambda *_: ServerReply(200, {"retcode": 0, "data": {"entries": [{}]}}))
    found = flow(world, "show", "-j", JOB)
    assert (found.exit_code, "in a form that this release of flow does not know" in found.output) == (1, True)


def followed(world: World, *options: str, between: Callable[[Through], None], looks: int = 3) -> tuple[str, str]:
    """What `flow audit follow` prints until Ctrl-C; `between` happens after its first look and each one after that."""
    client, pauses = Through(world), iter(range(looks))

    def pause(_: float) -> None:
        if next(pauses, None) is None:
            raise KeyboardInterrupt
        between(client)

    client.pause = pause
    found = CliRunner().invoke(flow_command, ["audit", "follow", *options], obj=client)
    assert "Aborted" in found.stderr or next(pauses, None) is not None, found.output
    return found.stdout, found.stderr


def test_new_entries_are_followed_and_none_is_printed_twice(world: World) -> None:
    out, _ = followed(world, "--as", "lines", between=lambda _: record_job(world))
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(one["log"], one["index"]) for one in lines if one["log"] == "own"] == [("own", at) for at in range(5, 20)]
    assert len(lines) == 21

    table, _ = followed(world, between=lambda _: record_job(world), looks=1)
    assert len(table.splitlines()) == 7
    assert f"own #20             job {JOB}: alice: submitted" in table
    world.add_job(JOB, f_name="recorded")
    table, _ = followed(world, between=lambda _: record_job(world), looks=1)
    assert f"job {JOB} (recorded): alice: submitted" in table
    assert len(table.splitlines()) == 7


def test_following_goes_on_over_a_restart_of_the_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_or_start(client: Through) -> None:
        client.failures = [] if client.failures else [NoAnswer("no server"), NoAnswer("no server"), None]
        record_job(world)

    out, err = followed(world, "--as", "lines", between=stop_or_start, looks=4)
    assert (len(out.splitlines()), err.count("no server; asking again")) == (28, 2)


def test_following_says_that_a_log_has_lost_entries_and_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database was restored from a backup after the first look."""
    monkeypatch.setattr(
        "fate_flow.api.v1.party.audit.newest_position", lambda tx: {**newest_position(tx), "own": (1, 50)}
    )
    out, err = followed(world, "--as", "lines", between=lambda _: record_job(world), looks=2)
    assert err.count("log own has lost entries") == 1
    assert "read up to 50 of epoch 1, and ends at 5 of epoch 1" in err
    assert [one["index"] for one in map(json.loads, out.splitlines()) if one["log"] == "own"] == list(range(5, 15))


def test_a_long_record_is_followed_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.services.record.following.followed.__defaults__", (2,))
    out, _ = followed(world, "--as", "lines", between=lambda _: record_job(world), looks=1)
    assert len(out.splitlines()) == 7


def test_following_ends_if_the_server_refuses_it(world: World) -> None:
    def refuse(client: Through) -> None:
        client.failures = [ServerReply(200, {"retcode": 108, "retmsg": "the role audit is missing"})]

    out, err = followed(world, between=refuse)
    assert ("the role audit is missing" in out + err, "Aborted" in err) == (True, False)


@pytest.mark.parametrize("position", [7, {"own": 1}, {"own": [1, -1]}, {"own": [1, "2"]}, {"own": [1, 2, 3]}])
def test_a_position_that_is_none_is_refused(world: World, position: object) -> None:
    answer = world.post("record/follow", {"position": position})
    assert (answer.json["retcode"], "position: " in answer.json["retmsg"]) == (101, True)


def test_a_job_is_proved_through_the_server(world: World, tmp_path: Path) -> None:
    file = tmp_path / "job.proof"
    found = flow(world, "prove", "-j", JOB, "-o", str(file))
    assert (found.exit_code, "7 entries are not signed yet" in found.stderr) == (0, True)
    assert read_bundle(file.read_text(encoding="utf-8")).entries == ()

    store = world.services.context
    store.write(lambda tx: sign_heads(tx, SIGNER, START, salts))
    found = flow(world, "prove", "-j", JOB, "-o", str(file))
    proved = read_bundle(file.read_text(encoding="utf-8")).entries
    assert (found.stderr, len(proved)) == (f"written: {file}\n", 7)
    assert all(one.proof.shows(one.content) for one in proved)
    assert any("no <table>" in one.text for one in proved)

    flow(world, "prove", "-j", JOB, "--closed", "-o", str(file))
    assert "no <table>" not in file.read_text(encoding="utf-8")


def test_a_log_with_a_party_is_proved_through_the_server(world: World, tmp_path: Path) -> None:
    world.services.context.write(lambda tx: sign_heads(tx, SIGNER, START, salts))
    file = tmp_path / "for-10000.proof"
    found = flow(world, "prove", "-p", "10000", "-o", str(file))
    kinds = [json.loads(one.content)["kind"] for one in read_bundle(file.read_text(encoding="utf-8")).entries]
    assert (found.exit_code, kinds) == (0, ["sent", "answered", "head"])


def test_a_log_that_is_signed_anew_meanwhile_is_proved_as_a_whole(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the other party would refuse the file: its checkpoint has more entries."""
    world.services.context.write(lambda tx: sign_heads(tx, SIGNER, START, salts))
    file = tmp_path / "for-10000.proof"
    grown = seal_while_read(monkeypatch, signs=True)
    found = flow(world, "prove", "-p", "10000", "-o", str(file))
    proved = read_bundle(file.read_text(encoding="utf-8")).entries
    assert (found.exit_code, {read_checkpoint(one.proof.checkpoint.text).size for one in proved}) == (0, {len(proved)})
    assert grown


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("-j", "202311142213200000009"), 1, "nothing is recorded about job 202311142213200000009"),
        (("-p", "10007"), 1, "nothing is recorded about party 10007"),
        (("-p", "10000", "-j", JOB), 2, "one of --job-id and --party is needed"),
        ((), 2, "one of --job-id and --party is needed"),
    ],
)  # fmt: skip
def test_what_cannot_be_proved_is_named(
    world: World, tmp_path: Path, options: tuple[str, ...], code: int, text: str
) -> None:
    found = flow(world, "prove", "-o", str(tmp_path / "file"), *options)
    assert (found.exit_code, text in found.output, (tmp_path / "file").exists()) == (code, True, False)


def test_a_request_does_not_prove_a_long_log(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.services.record.proving.MOST_PROVED", 6)
    found = flow(world, "prove", "-j", JOB, "-o", str(tmp_path / "file"))
    assert (found.exit_code, "use fate_flow audit prove on the machine" in found.output) == (1, True)
