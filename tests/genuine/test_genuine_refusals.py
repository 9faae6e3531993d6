"""Every command of the genuine `flow` where its keys are not the server's, and where no server is.

Beside what `cases.py` has of wrong data. Our own `flow` says the same there, too."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.flow.main import flow as own_flow
from tests.genuine.cases import CASES
from tests.genuine.checklist import CHECKLIST, NOT_OFFERED, OF_MODELS
from tests.genuine.genuine_client import Flow, GenuineClient, Printed, init
from tests.genuine.locked import ANOTHER_SECRET, APP_KEY, WRONG
from tests.genuine.sdk_calls import CALLS, filled
from tests.genuine.world import World
from tests.kit.servers.party_servers import PartyServer

pytestmark = pytest.mark.timeout(900)

NOBODY = "http://127.0.0.1:1"
SEAT = "-j {job} -r guest -p {guest} -cpn sum_0"
COMMANDS = {
    **NOT_OFFERED, **OF_MODELS,
    **{case.line: case.text for case in reversed(CASES) if case.is_success},
    **{f"flow {group} output-model": f"{group} output-model {SEAT}" for group in ("component", "tracking")},
    "flow test toy": "test toy -gid {guest} -hid {host}",
}
"""A good call of each line."""
STREAMED = ("job.log", "component.output_data", "model.export_model")
"""Of these the SDK itself fails where no server is: it closes an answer that it has not got."""
METHODS = {call.method: call for call in reversed(CALLS) if call.retcode == 0}


@pytest.fixture(scope="module")
def strangers(
    genuine_python: Path, locked: PartyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Flow, Address]]]:
    """The forked client, and the address of ours: with wrong keys, and of a server that is not there."""
    wrong, alone = (GenuineClient(genuine_python, tmp_path_factory.mktemp(name)) for name in ("wrong", "alone"))
    with wrong.forked_flow() as with_wrong_keys, alone.forked_flow() as without_a_server:
        with_wrong_keys(*init(locked.url, *WRONG))
        without_a_server(*init(NOBODY))
        yield {
            "wrong keys": (with_wrong_keys, Address(locked.url, APP_KEY, ANOTHER_SECRET)),
            "no server": (without_a_server, Address(NOBODY)),
        }


def said_by_both(
    strangers: dict[str, tuple[Flow, Address]], which: str, world: World, line: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the genuine client printed, and what ours did."""
    flow, address = strangers[which]
    text = [word.format_map(world.facts) for word in shlex.split(COMMANDS[line])]
    printed = flow(*text)
    assert (printed.code, "Traceback" in printed.err) == (0, False), printed
    done = CliRunner().invoke(own_flow, text, obj=Client(lambda: address), catch_exceptions=False)
    assert done.exit_code > 0
    return printed.document, Printed(done.exit_code, done.stdout, done.stderr).document


@pytest.mark.parametrize("line", COMMANDS)
def test_keys_that_are_not_the_servers(strangers: dict[str, tuple[Flow, Address]], world: World, line: str) -> None:
    said, own = said_by_both(strangers, "wrong keys", world, line)
    assert said["retcode"] in (109, 403), said
    assert "the secret key is probably wrong" in said["retmsg"]
    assert own == said


@pytest.mark.parametrize("line", COMMANDS)
def test_no_server(strangers: dict[str, tuple[Flow, Address]], world: World, line: str) -> None:
    said, own = said_by_both(strangers, "no server", world, line)
    assert (said["retcode"], "Connection refused" in said["retmsg"]) == (100, True), said
    assert (own["retcode"], "Connection refused" in own["retmsg"]) == (100, True), own


def test_every_command_that_asks_a_server_is_here() -> None:
    lines = {line for line in CHECKLIST if line.startswith("flow ")}
    assert set(COMMANDS) == lines - {"flow init", "flow test min"}      # min: test_genuine_first_steps.py


def test_so_it_is_with_the_sdk(genuine: GenuineClient, locked: PartyServer, world: World) -> None:
    with genuine.sdk(locked.url, APP_KEY, ANOTHER_SECRET) as locked_out, genuine.sdk(NOBODY) as alone:
        for method, call in METHODS.items():
            arguments = filled(call.arguments, world.facts)
            assert locked_out(method, arguments)["retcode"] in (109, 403), method
            if method not in STREAMED:
                said = alone(method, arguments)
                assert (said["retcode"], "Connection refused" in said["retmsg"]) == (100, True), method
