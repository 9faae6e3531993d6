"""A stub server, and `flow` run against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.flow.main import flow as flow_command
from tests.kit.cli.stub_server import Stub, running_stub


@pytest.fixture(scope="module")
def one_stub() -> Iterator[Stub]:
    with running_stub() as stub:
        yield stub


@pytest.fixture
def stub(one_stub: Stub) -> Stub:
    """Forgets what the test before asked."""
    fresh = Stub(one_stub.url)
    vars(one_stub).update(vars(fresh))
    return one_stub


@pytest.fixture(autouse=True)
def away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the settings of whoever runs it."""
    monkeypatch.setenv("FATE_FLOW_SETTINGS", str(tmp_path / "settings" / "settings.yaml"))
    monkeypatch.delenv("FATE_FLOW_SERVER", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pauses() -> list[float]:
    """How long `flow` has waited."""
    return []


@pytest.fixture
def flow(stub: Stub, pauses: list[float]) -> Callable[..., Result]:
    """Runs `flow` against the stub; time passes only in `pauses`."""

    def run(*arguments: str) -> Result:
        client = Client(lambda: Address(stub.url), pause=pauses.append)
        return CliRunner().invoke(flow_command, arguments, obj=client, catch_exceptions=False)

    return run


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[[str, Any], str]:
    def write(name: str, document: Any) -> str:
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
        return name

    return write
