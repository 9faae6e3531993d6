"""`flow audit`: the record of a party, read through its server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.audit.record_reports import ACCUSED, BROKEN, NOT_ANCHORED
from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.flow.main import flow as flow_command
from fate_flow.core.model.job import UNREACHABLE, Answer
from fate_flow.core.model.spec import Party
from tests.kit.api.client_world import World
from tests.kit.api.recorded_world import JOB, recorded_world, their_file


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

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> ServerReply:
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


def test_a_file_that_is_none_is_refused(world: World, tmp_path: Path) -> None:
    their_file(world, tmp_path, Answer())
    (tmp_path / "file").write_text("{", encoding="utf-8")
    found = flow(world, "reconcile", str(tmp_path / "file"), "-p", "10000")
    assert (found.exit_code, "file: the file is no JSON" in found.output) == (1, True)


def test_an_answer_of_another_form_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Through, "post", lambda *_: ServerReply(200, {"retcode": 0, "data": {"entries": [{}]}}))
    found = flow(world, "show", "-j", JOB)
    assert (found.exit_code, "in a form that this release of flow does not know" in found.output) == (1, True)
