"""Each command of the `flow` of fate_client 2.2.0, unmodified, at real servers."""

from __future__ import annotations

import shlex
from contextlib import nullcontext

import pytest

from tests.genuine.genuine_client import Flow, GenuineClient, init
from tests.genuine.world import World
from tests.heavy.fate_client_2.lines import CASES, LINES, Case
from tests.kit.api.shapes import misfits
from tests.kit.servers.party_servers import GUEST

pytestmark = pytest.mark.timeout(900)

WITHOUT_CASE = {"flow init", "flow version", "flow test toy"}
"""Commands that have a test of their own below."""


def test_the_lines_are_the_commands_of_the_client(flow_2: Flow) -> None:
    assert sorted(LINES) == flow_2("commands").document["commands"]
    assert {case.line for case in CASES} == {*LINES} - WITHOUT_CASE


@pytest.mark.parametrize("line", sorted({case.line for case in CASES}))
def test_the_genuine_flow_2(flow_2: Flow, world: World, line: str) -> None:
    for case in CASES:
        if case.line == line:
            with (case.given or no_state)(world) as more:
                check(flow_2, world, case, {**world.facts, **more})


def no_state(_: World) -> nullcontext[dict[str, str]]:
    return nullcontext({})


def check(flow: Flow, world: World, case: Case, facts: dict[str, str]) -> None:
    printed = flow(*(word.format_map(facts) for word in shlex.split(case.text)))
    assert printed.code == 0, f"{case.name}\n{printed}"
    document = printed.document
    if case.printed is not None:
        assert list(misfits(document, case.printed)) == [], f"{case.name}\n{document}"
        return
    assert document["code"] == case.code, f"{case.name}\n{document}"
    assert case.says.format_map(facts) in document["message"], f"{case.name}\n{document}"
    assert list(misfits(document.get("data"), case.data)) == [], f"{case.name}\n{document}"
    if case.makes_job:
        world.guest.wait(document["job_id"], "success")


def test_init_and_version(fresh_client: GenuineClient, world: World) -> None:
    with fresh_client.forked_flow("flow_2_forks.py") as flow:
        said = flow(*init(world.guest.url)).document
        assert (said["code"], "initialized successfully" in said["retmsg"]) == (0, True)
        assert flow("version").out.strip() == "2.2.0"
        assert flow("site", "query").document["data"] == {"party_id": GUEST}
