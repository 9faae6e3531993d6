"""The genuine `flow` is driven over the checklist, and our own `flow` beside it, which has to say the same."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
from click.testing import CliRunner

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.flow.main import flow as own_flow
from tests.genuine.cases import CASES, NO_ENVELOPE, Case
from tests.genuine.checklist import CHECKLIST, OF_MODELS, OFFERED
from tests.genuine.genuine_client import Flow, Printed
from tests.genuine.world import Facts, World
from tests.kit.api.shapes import misfits

pytestmark = pytest.mark.timeout(900)

USAGE = 2
JOB_IDS = re.compile(r"20\d{12,23}")
TIMES = re.compile(r'("[a-z_]*(?:time|elapsed)": )\d+')


class Answers:
    """What both clients print, each asked once: first all that changes nothing, then the others."""

    def __init__(self, world: World, forked: Flow) -> None:
        self._world = world
        self._forked = forked
        self._known = {case.name: self._asked(case) for case in CASES if not case.given}

    def of(self, case: Case) -> tuple[Printed, Printed]:
        """The genuine client's and ours."""
        if case.name not in self._known:
            self._known[case.name] = self._asked(case)
        return self._known[case.name]

    def _asked(self, case: Case) -> tuple[Printed, Printed]:
        return self._in_its_state(case, self._forked), self._in_its_state(case, self._run_own)

    def _in_its_state(self, case: Case, run: Flow) -> Printed:
        with case.given(self._world) if case.given else nullcontext({}) as facts:
            return run(*text_of(case, {**self._world.facts, **facts}))

    def _run_own(self, *text: str) -> Printed:
        client = Client(lambda: Address(self._world.guest.url))
        done = CliRunner().invoke(own_flow, text, obj=client, catch_exceptions=False)
        return Printed(done.exit_code, done.stdout, done.stderr)


def text_of(case: Case, facts: Facts) -> list[str]:
    return [word.format_map(facts) for word in shlex.split(case.text)]


@pytest.fixture(scope="module")
def answers(forked: Flow, world: World) -> Answers:
    return Answers(world, forked)


def by_name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_the_genuine_flow(answers: Answers, case: Case) -> None:
    printed, _ = answers.of(case)
    assert "Traceback" not in printed.err
    assert "is not known; it is ignored" not in printed.out
    if case.retcode == NO_ENVELOPE:
        assert (printed.code, case.says in printed.err) == (USAGE, True), printed
        return
    document = printed.document
    assert (printed.code, document["retcode"]) == (0, case.retcode), document
    assert case.says in document.get("retmsg", ""), document
    wrong = [*misfits(document, case.printed or {}), *misfits(document.get("data"), case.data, "data")]
    assert wrong == []


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_our_flow_says_the_same(answers: Answers, case: Case) -> None:
    genuine, own = answers.of(case)
    if case.retcode == NO_ENVELOPE:
        assert own.code == USAGE, own
        return
    assert own.code > 0 or case.retcode == 0, own
    assert plain(own.document) == plain(genuine.document)


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """Without what differs each time: job ids and times."""
    found = json.loads(TIMES.sub(r"\1 0", JOB_IDS.sub("JOB", json.dumps(document))))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("line", [
    line for line, priority in CHECKLIST.items()
    if line.startswith("flow ") and (priority != "later" or line in OFFERED)
    and line not in ("flow init", "flow test toy", *OF_MODELS)
])
def test_every_line_has_a_success_and_two_failures(line: str) -> None:
    """Two of a server are in test_genuine_refusals.py; those of models are in test_genuine_models.py."""
    counted = Counter(case.is_success for case in CASES if case.line == line)
    assert counted[True] >= 1, line
    assert counted[False] >= 2, line
