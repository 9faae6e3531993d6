"""As which user programs run: what a server refuses at its start, and which modes it gives to its home."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.components.providers.program_order import ORDER, Order
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.program import ProgramRules
from fate_flow.engines.local.program_user import ProgramUser, take_back
from fate_flow.server.engines.program_user import check_program_user, open_home
from fate_flow.settings.reader import load_settings
from fate_flow.settings.servers import OneOfServers
from fate_flow.settings.settings import Settings

NOBODY = pwd.getpwuid(65534).pw_name


def settings(home: Path, **rules: object) -> Settings:
    return Settings("9999", home, commands=ProgramRules(**{"enabled": True, **rules}))  # type: ignore[arg-type]


@pytest.mark.parametrize(("uid", "rules", "text"), [
    (0, {}, "commands.enabled: programs of jobs would run as root"),
    (0, {"user": NOBODY, "as_root": True}, "commands.as_root is true; only one of them can hold"),
    (1000, {"user": NOBODY}, "only a server of root can run programs as another user"),
    (0, {"user": "nobody-of-that-name"}, "commands.user: nobody-of-that-name: this machine has no user of that name"),
    (0, {"user": "root"}, "commands.user: root: is root; name a user without rights of its own"),
])
def test_it_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, rules: dict[str, object], text: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    with pytest.raises(BadSettings) as refused:
        check_program_user(settings(tmp_path, **rules))
    assert text in refused.value.message


@pytest.mark.parametrize(("uid", "rules"), [
    (0, {"as_root": True}), (0, {"user": NOBODY}), (1000, {}), (1000, {"as_root": True}), (0, {"enabled": False}),
    (1000, {"enabled": False, "user": NOBODY}),
])
def test_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, rules: dict[str, object]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    check_program_user(settings(tmp_path, **rules))


@pytest.fixture
def home() -> Iterator[Path]:
    """One that others reach, unlike those of pytest."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    for name in ("jobs", "keys", "data"):
        (home / name).mkdir(mode=0o755)
    (home / "fate_flow.sqlite").write_text("")
    yield home
    shutil.rmtree(home)


def modes(home: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in (home, *home.iterdir()) if one != home}


def test_the_user_passes_to_the_folders_of_workers_and_to_nothing_else(home: Path) -> None:
    open_home(settings(home, user=NOBODY))
    assert modes(home) == {"jobs": 0o711, "keys": 0o700, "data": 0o700, "fate_flow.sqlite": 0o600}
    assert stat.S_IMODE(home.stat().st_mode) == 0o711


@pytest.mark.parametrize("shared_in", ["", "party"])
def test_of_several_servers_the_own_home_is_closed_too(home: Path, shared_in: str) -> None:
    own = home / "own"
    shared = own / shared_in if shared_in else home
    for folder in (own / "run", own / "logs", shared / "jobs", shared / "keys"):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    home.chmod(0o755)
    several = replace(settings(own, user=NOBODY), one_of=OneOfServers("one", shared))
    open_home(several)
    assert modes(own) == {"run": 0o700, "logs": 0o700, **({shared_in: 0o711} if shared_in else {})}
    assert stat.S_IMODE(own.stat().st_mode) == (0o711 if shared_in else 0o700)
    assert (modes(shared)["jobs"], modes(shared)["keys"]) == (0o711, 0o700)
    assert ProgramUser.of(NOBODY).why_not_reached(several.jobs_dir) == ""


@pytest.mark.parametrize(("user", "mode"), [("", 0o755), (NOBODY, 0o700)])
def test_the_folder_of_an_ended_worker_is_closed_only_to_the_user_of_its_program(
    tmp_path: Path, user: str, mode: int
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / ORDER).write_text(Order(("x",), {}, ProgramRules(True, user=user)).to_json())
    take_back(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode


@pytest.mark.parametrize("order", [None, "{", '{"policy": 7}'])
def test_the_folder_of_a_worker_without_an_order_stays_as_it_is(tmp_path: Path, order: str | None) -> None:
    tmp_path.chmod(0o755)
    if order is not None:               # what a program of the server's own user may have made of it
        (tmp_path / ORDER).write_text(order)
    take_back(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_without_a_user_the_home_stays_as_it_is(home: Path) -> None:
    before = modes(home)
    open_home(settings(home, as_root=True))
    assert modes(home) == before


def test_a_folder_above_the_home_that_is_closed_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "home" / "jobs").mkdir(parents=True)
    closed.chmod(0o700)
    shown = ProgramUser.of(NOBODY).why_not_reached(closed / "home" / "jobs")
    assert f"so user {NOBODY} does not reach {closed}/home/jobs" in shown
    with pytest.raises(BadSettings, match="move the home, or let others pass"):
        open_home(settings(closed / "home", user=NOBODY))


def test_a_sandbox_that_this_machine_does_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BadSettings, match=r"commands\.sandbox: /nothing/bwrap: there is no such program"):
        check_program_user(settings(tmp_path, sandbox="/nothing/bwrap"))
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no permission to make namespaces >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(BadSettings, match="bwrap does not work here: no permission to make namespaces"):
        check_program_user(settings(tmp_path, sandbox=str(broken)))


def test_the_configuration_names_the_sandbox(tmp_path: Path) -> None:
    conf = tmp_path / "c.yaml"
    for text, expected in (("none", ""), ("bubblewrap", "bubblewrap"), ("/opt/bwrap", "/opt/bwrap")):
        conf.write_text(f'party_id: "9999"\ncommands: {{sandbox: {text}}}\n')
        assert load_settings(conf).commands.sandbox == expected
    conf.write_text('party_id: "9999"\ncommands: {sandbox: docker}\n')
    with pytest.raises(BadSettings, match="is neither none nor bubblewrap, nor the absolute path of bubblewrap"):
        load_settings(conf)
