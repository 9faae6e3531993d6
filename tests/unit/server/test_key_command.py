"""`fate_flow key` on a home whose server does not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.server.main import fate_flow
from fate_flow.core.access.key_list import MESSAGE, RECORD, TLS, WITNESS, KeyList, read_key_list, read_signed_key_list
from fate_flow.peers.site_key import load_private_key

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command at party 9999."""
    conf = tmp_path / "conf.yaml"
    conf.write_text(f'party_id: "9999"\nhome: {tmp_path}/home\n', encoding="utf-8")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(fate_flow, ["key", *arguments, "-c", str(conf)])

    return run


def printed(result: Result) -> KeyList:
    assert result.exit_code == 0, result.stderr
    return read_key_list(read_signed_key_list(result.stdout).content)


def test_the_next_key_of_each_use_is_announced(run: Run, tmp_path: Path) -> None:
    assert [key.use for key in printed(run("make")).keys] == [TLS, MESSAGE, RECORD, WITNESS]
    assert [key.use for key in printed(run("announce")).keys] == [TLS, TLS, MESSAGE, RECORD, WITNESS]
    found = printed(run("announce", "--use", "message", "--days", "1"))
    assert [key.use for key in found.keys] == [TLS, TLS, MESSAGE, MESSAGE, RECORD, WITNESS]
    assert round((found.keys[3].since - found.issued_at) / (24 * 3600 * 1000), 1) == 1.0
    pem = run("show", "--pem").stdout
    assert pem == load_private_key(tmp_path / "home" / "keys" / "message.pem").public.pem, "the one in use"
    again = run("announce", "--use", "message")
    assert (again.exit_code, "message.next.pem: the next message key is announced already" in again.stderr) == (1, True)


def test_a_terminal_shows_no_list_that_nobody_reads(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    made = run("make")
    assert (made.exit_code, made.stdout) == (0, "")
    shown = " ".join(made.stderr.split())     # its lines are broken for the terminal
    assert "fingerprint of its root key: " in shown
    assert "fate_flow key show prints it" in shown
    assert [key.use for key in printed(run("show")).keys] == [TLS, MESSAGE, RECORD, WITNESS]


def test_who_wants_to_change_a_key_is_told_how_that_cuts_nobody_off(run: Run) -> None:
    run("make")
    again = run("make")
    assert again.exit_code == 1
    assert "To change one while they are connected: fate_flow key announce --use USE" in again.stderr


@pytest.mark.parametrize("arguments", [
    ("announce", "--days", "inf"), ("announce", "--days", "nan"), ("announce", "--days", "3651"),
    ("announce", "--days", "0"), ("announce", "--use", "root"), ("certify", "--number", str(2**53)),
    ("certify", "--number", "0"),
])  # fmt: skip
def test_what_would_write_a_list_that_nobody_can_use_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    before = run("make").stdout
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"Invalid value for {arguments[1]}:" in found.stderr.replace("'", "")
    assert run("show").stdout == before
