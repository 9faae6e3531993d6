"""`fateflow.worker_listen`: where workers on other hosts connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reader import load_settings
from fate_flow.settings.worker_listen import WorkerListen


def settings_of(folder: Path, text: str) -> WorkerListen | None:
    path = folder / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\nfateflow: {{worker_listen: {text}}}\n', encoding="utf-8")
    return load_settings(path).worker_listen


@pytest.mark.parametrize(("text", "found"), [
    ("null", None), ("{host: 10.0.0.1}", None),
    ("{host: 10.0.0.1, port: 9390}", WorkerListen("10.0.0.1", 9390, "10.0.0.1:9390")),
    ("{host: '::1', port: 9390}", WorkerListen("::1", 9390, "[::1]:9390")),
    ("{port: 9390, address: 'flow.example:443'}", WorkerListen("0.0.0.0", 9390, "flow.example:443")),
])  # fmt: skip
def test_a_listener_needs_a_port_and_an_address_for_others(tmp_path: Path, text: str, found: WorkerListen) -> None:
    assert settings_of(tmp_path, text) == found


@pytest.mark.parametrize(("text", "why"), [
    ("{port: 9390}", r"worker_listen.address: is not set, and fateflow.worker_listen.host 0.0.0.0 is no address that"),
    ("{host: flow, port: 9390}", "worker_listen.host: 'flow' is not an IP address"),
    ("{port: 9390, address: flow}", "worker_listen.address: 'flow' is not HOST:PORT"),
    ("{port: 9390, address: 'https://flow:1'}", "worker_listen.address: 'https://flow:1' is not HOST:PORT"),
    ("{port: 9390, address: 'flow:x'}", "worker_listen.address: "),
    ("{prot: 9390}", "worker_listen.prot: no such key"),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        settings_of(tmp_path, text)
