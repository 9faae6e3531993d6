"""`fate_flow party` on a home whose server does not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.server import party
from fate_flow.cli.server.main import fate_flow
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.peers.invitations import Invitations
from fate_flow.settings.reader import load_settings
from tests.kit.store.migrated_sqlite import migrated_sqlite

PHRASE = "zoo zoo zoo zoo zoo zoo"
Run = Callable[..., Result]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration of party 9999, which has keys and a database."""
    found = tmp_path / "conf.yaml"
    found.write_text(
        f'party_id: "9999"\nhome: {tmp_path}/home\n'
        'parties: {listen: {host: 127.0.0.1, port: 9390}}\nauthentication: {client: {switch: true}}\n',
        encoding="utf-8",
    )
    (tmp_path / "home").mkdir()
    migrated_sqlite(tmp_path / "home").close()
    assert CliRunner().invoke(fate_flow, ["key", "make", "-c", str(found)]).exit_code == 0
    return found


@pytest.fixture
def run(conf: Path) -> Run:
    def run(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(fate_flow, ["party", *arguments, "-c", str(conf)], input=text)

    return run


def test_an_invitation_that_was_used_by_a_server_that_failed_then_is_no_success(
    run: Run, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(conf)
    invitations = Invitations(settings.invitations_dir, lambda: 0)
    used = JoinedParty("10000", "https://10.0.0.2:9390", PHRASE, 1, "ann", 0)

    def use(_url: str, _party_id: str) -> str:
        """The server uses the invitation as soon as it is open, and ends before its transaction does."""
        [file] = settings.invitations_dir.glob("*.json")
        with invitations.held(file.stem) as held, held.used(used):
            pass
        return ""

    monkeypatch.setattr(party, "why_nobody_joins", use)
    found = run("invite", "--for", "10000")
    assert found.exit_code == 1
    assert "Error: the invitation was used, but nothing was saved of party 10000" in found.stderr
    assert "has joined" not in found.stderr
