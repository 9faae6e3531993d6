"""`fate_flow party` on a home whose server does not run."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.server import party
from fate_flow.cli.server.main import fate_flow
from fate_flow.core.access.invitation import Invitation, read_invitation
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.core.access.joining import SavedList
from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.model.errors import PermissionDenied
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.joining import Joining
from fate_flow.peers.key_lists import sign_key_list
from fate_flow.settings.reader import load_settings
from fate_flow.store.sql.store import SqlStore
from tests.kit.key_lists import key_list as key_list_of
from tests.kit.site_keys import private_key
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


# ---------------------------------------------------------------------- join

TEXT = Invitation("https://10.0.0.2:9390", "10000", "ab" * 32, "9999", b"s" * 16, 2**41).text()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Invitation]:
    """The invitations with which the other party was asked; it refuses."""
    found: list[Invitation] = []

    def ask(invitation: Invitation, *_: object) -> Joining:
        found.append(invitation)
        raise PermissionDenied("secret: the other party refuses")

    monkeypatch.setattr(party, "join_party", ask)
    return found


@pytest.mark.parametrize("text", [
    TEXT, f"{TEXT}\n", f"{TEXT[:50]}\n{TEXT[50:90]}\r\n  {TEXT[90:]}\nwhat follows", f"{TEXT[:17]}\n{TEXT[17:]}\n\n",
], ids=["no line feed", "one line", "three lines", "two lines"])  # fmt: skip
def test_a_text_over_several_lines_can_be_pasted(run: Run, asked: list[Invitation], text: str) -> None:
    found = run("join", text=text)
    assert "Error: secret: the other party refuses" in found.stderr
    assert [one.text() for one in asked] == [TEXT]


@pytest.mark.parametrize(("text", "said"), [
    ("", "no text was pasted"), (f"\n{TEXT}", "no text was pasted"), ("hello", "does not begin with fate-flow-invite:"),
    (f"x{TEXT}", "does not begin with"),
    (f"{TEXT[:50]}\n\n{TEXT[50:]}", "missing or was changed"), (TEXT[:-1], "missing or was changed"),
    ((TEXT[:-1] + "\n") * 200, "missing or was changed"),
])  # fmt: skip
def test_a_text_that_is_none_ends_the_command(run: Run, asked: list[Invitation], text: str, said: str) -> None:
    found = run("join", text=text)
    assert found.exit_code == 1
    assert said in found.stderr
    assert asked == []


@pytest.mark.parametrize(("announced", "is_asked"), [(True, True), (False, False)])
def test_a_party_may_join_again_by_a_root_key_that_it_has_announced(
    run: Run, conf: Path, asked: list[Invitation], announced: bool, is_asked: bool
) -> None:
    before, after = private_key(105), private_key(106)
    key_list = replace(key_list_of("10000", 1, private_key(1)), next_root=after.public.pem if announced else None)
    store = SqlStore(migrated_sqlite(load_settings(conf).home))
    with store.transaction() as tx:
        tx.add_party_keys(PartyKeys(
            "10000", 1, before.public.key_id, sign_key_list(before, key_list), 1, KeyState.JOINED, "ann", 1
        ))
    store.close()
    text = replace(read_invitation(TEXT), root_id=after.public.key_id).text()
    found = run("join", text=text)
    assert found.exit_code == 1
    assert len(asked) == is_asked
    assert ("fate_flow party remove 10000" in found.stderr) is not is_asked
    own = run("join", text=replace(read_invitation(TEXT), root_id=before.public.key_id).text())
    assert "the other party refuses" in own.stderr


@pytest.mark.parametrize(("state", "is_sent"), [(KeyState.JOINED, True), (KeyState.REMOVED, False)])
def test_the_other_party_hears_which_of_its_lists_is_here(
    run: Run, conf: Path, monkeypatch: pytest.MonkeyPatch, state: KeyState, is_sent: bool
) -> None:
    """Unless any list may take the place of that one."""
    sent: list[object] = []

    def ask(*values: object) -> Joining:
        sent.append(values[-1])
        raise PermissionDenied("key: the other party refuses")

    monkeypatch.setattr(party, "join_party", ask)
    root, text = private_key(105), read_invitation(TEXT)
    signed = sign_key_list(root, key_list_of("10000", 4, private_key(1)))
    store = SqlStore(migrated_sqlite(load_settings(conf).home))
    with store.transaction() as tx:
        tx.add_party_keys(PartyKeys("10000", 4, root.public.key_id, signed, 1, state, "ann", 1))
    store.close()
    run("join", text=replace(text, root_id=root.public.key_id).text())
    assert sent == [SavedList.of(4, signed) if is_sent else None]


def test_a_user_without_a_name_is_named_by_its_number(
    run: Run, conf: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Invitation]
) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert "the other party refuses" in run("join", text=TEXT).stderr
    assert len(asked) == 1
    grants = conf.with_name("grants.yaml")
    grants.write_text("version: 1\nparties: {10000: {cores: 4}}\n", encoding="utf-8")
    done = CliRunner().invoke(fate_flow, ["grants", "apply", "-f", str(grants), "-c", str(conf)])
    assert done.exit_code == 0, done.stderr
    shown = CliRunner().invoke(fate_flow, ["grants", "show", "-c", str(conf)]).stdout
    assert f"applied by user {os.getuid()} at" in shown


def test_the_keys_that_a_party_had_before_are_shown(run: Run, conf: Path) -> None:
    root = private_key(101)

    def keys(number: int) -> PartyKeys:
        signed = sign_key_list(root, key_list_of("10000", number, private_key(number)))
        return PartyKeys("10000", number, root.public.key_id, signed, number, KeyState.JOINED, "ann", 1)

    store = SqlStore(migrated_sqlite(load_settings(conf).home))
    with store.transaction() as tx:
        tx.add_party_keys(keys(1))
        tx.replace_party_keys(keys(2), keys(1))
    store.close()
    shown = json.loads(run("list", "--json").stdout)["10000"]
    assert (shown["state"], shown["list_number"]) == ("joined", 2)
    assert [(one["use"], one["key_id"], one["listed_until"] is None) for one in shown["keys"]] == [
        ("root", root.public.key_id, True), ("message", private_key(1).public.key_id, False),
        ("message", private_key(2).public.key_id, True),
    ]  # fmt: skip
