"""All lines of the checklist: each path answers, the client's `later` commands say what to use instead, and
docs/reference/compatibility.md has them all."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.flow.main import flow as own_flow
from tests.genuine.checklist import CHECKLIST, LINES, NOT_OFFERED, OFFERED, paths_of
from tests.genuine.genuine_client import Flow
from tests.genuine.world import World
from tests.kit.servers.party_servers import Cluster

pytestmark = pytest.mark.timeout(900)

CHECKOUT = Path(__file__).parents[2]
TABLE = CHECKOUT / "docs" / "reference" / "compatibility.md"
INSTEAD = re.compile(r"does not offer .+; instead: .+")
OF_FATE_2 = "## Commands of `fate_client` 2.2"
HOWS = ("works", "differs", "not offered")


# ---------------------------------------------------------------------- over HTTP, without the client


@pytest.mark.parametrize("line", LINES, ids=lambda line: str(line["command"]))
def test_each_path_answers(parties: Cluster, line: dict[str, str]) -> None:
    """With an envelope of its own or a file; whatever is wrong with a request that says next to nothing."""
    for path in paths_of(line):
        response = parties.guest.raw(line["method"], path, json={"job_id": "1"})
        if response.headers["Content-Type"] == "application/gzip":
            assert response.status_code == 200
            continue
        said = response.json()
        message = said.get("retmsg", "")
        assert response.status_code < 500
        assert isinstance(said["retcode"], int)
        assert "NotFound" not in message
        assert "no such path" not in message
        assert "does not offer" not in message or INSTEAD.search(message)


# ---------------------------------------------------------------------- what is not offered, by the client's commands

OF_A_COMPONENT = ("flow component output-model", "flow tracking output-model")
"""They have an answer, also if the component has made no model."""


@pytest.mark.parametrize("line", NOT_OFFERED)
def test_the_genuine_flow_is_told_what_to_use_instead(forked: Flow, world: World, line: str) -> None:
    printed = forked(*(word.format_map(world.facts) for word in shlex.split(NOT_OFFERED[line])))
    assert printed.code == 0, printed
    document = printed.document
    assert document["retcode"] in (100, 404)
    assert INSTEAD.search(document["retmsg"]), document


@pytest.mark.parametrize("line", NOT_OFFERED)
def test_our_flow_is_told_the_same(forked: Flow, world: World, line: str) -> None:
    text = [word.format_map(world.facts) for word in shlex.split(NOT_OFFERED[line])]
    own = CliRunner().invoke(own_flow, text, obj=Client(lambda: Address(world.guest.url)), catch_exceptions=False)
    assert own.exit_code == 1
    assert json.loads(own.stdout) == forked(*text).document


@pytest.mark.parametrize("group", ["component", "tracking"])
def test_a_component_without_a_model_has_no_data(forked: Flow, world: World, group: str) -> None:
    seat = ("-r", "guest", "-p", world.facts["guest"], "-cpn", "sum_0")
    document = forked(group, "output-model", "-j", world.facts["job"], *seat).document
    assert document == {"retcode": 0, "retmsg": "no data", "data": {}, "meta": {}}
    assert forked(group, "output-model", "-j", "x", *seat).document["retcode"] == 101
    assert forked(group, "output-model", *seat).code == 2
    text = [group, "output-model", "-j", world.facts["job"], *seat]
    own = CliRunner().invoke(own_flow, text, obj=Client(lambda: Address(world.guest.url)), catch_exceptions=False)
    assert json.loads(own.stdout) == document


def test_every_command_that_is_not_offered_is_tried() -> None:
    later = {line for line, priority in CHECKLIST.items() if line.startswith("flow ") and priority == "later"}
    assert set(NOT_OFFERED) == later - {*OF_A_COMPONENT, *OFFERED, "flow test min"}     # min trains a model


# ---------------------------------------------------------------------- docs/reference/compatibility.md


def rows() -> dict[str, list[str]]:
    """The cells of the document's tables about FATE Flow 1, by their first one."""
    text = TABLE.read_text(encoding="utf-8").partition(OF_FATE_2)[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    found = {row[0].strip("` "): row for row in cells}
    assert len(found) == len(cells), "a line stands there twice"
    return found


def test_the_table_has_every_line_of_the_checklist() -> None:
    assert sorted(set(CHECKLIST) ^ set(rows())) == []


@pytest.mark.parametrize("line", CHECKLIST)
def test_each_row_says_how_it_is_and_names_a_test_that_exists(line: str) -> None:
    command, how, remark, test = rows()[line]
    assert how in HOWS
    assert remark or how == "works", f"{command}: how does it differ, or what is there instead?"
    file, name = re.fullmatch(r"`(\S+\.py)::(\w+)`", test).groups()      # type: ignore[union-attr]
    assert f"def {name}(" in (CHECKOUT / "tests" / file).read_text(encoding="utf-8")


def test_the_table_and_the_tests_agree_on_what_is_not_offered() -> None:
    described = {line for line, row in rows().items() if row[1] == "not offered" and line.startswith("flow ")}
    assert described == {*NOT_OFFERED, "flow test min"}
