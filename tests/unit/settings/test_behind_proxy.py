"""The listener for a proxy that ends the TLS of other parties, in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.server.start_warnings import start_warnings
from fate_flow.settings.parties import Listen
from fate_flow.settings.reader import load_settings


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A place for the configuration of a home that is new."""
    path = tmp_path / "conf" / "service_conf.yaml"
    path.parent.mkdir()
    return path


@pytest.mark.parametrize(("text", "message"), [
    ("parties: {behind_proxy: {port: 9391}}\nauthentication: {client: {switch: true}, site: {switch: false}}",
     "parties.behind_proxy: is set, but authentication.site.switch is false: a proxy hides .* remove the switch, or"),
    ("parties: {behind_proxy: {port: 9391}, dial: true}", "parties.dial: is true, and parties.behind_proxy.port is"),
    ("parties: {behind_proxy: {port: 9380}}", "parties.behind_proxy.port: 9380 is fateflow.http_port, too"),
    ("parties: {behind_proxy: {port: 9391}, listen: {port: 9391}}",
     "parties.listen.port: 9391 is parties.behind_proxy.port, too"),
    ("parties: {behind_proxy: {port: 9391}, plain: {listen: {port: 9391}, from: [1]}}",
     "parties.behind_proxy.port: 9391 is parties.plain.listen.port, too"),
    ("parties: {behind_proxy: {host: a, port: 1}}", "parties.behind_proxy.host: 'a' is not an IP address"),
    ("parties: {behind_proxy: {ports: 1}}", "parties.behind_proxy.ports: no such key"),
])  # fmt: skip
def test_what_contradicts_another_key_is_refused(bare: Path, text: str, message: str) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    with pytest.raises(BadSettings, match=message):
        load_settings(bare)


def test_a_listener_behind_a_proxy_is_on_loopback_and_lets_other_machines_in(bare: Path) -> None:
    signed = "authentication: {client: {switch: true}}"
    text = f'party_id: "9999"\n{signed}\nparties: {{behind_proxy: %s}}\n'
    bare.write_text(text % "{port: 9391}")
    found = load_settings(bare)
    assert found.parties_behind_proxy == Listen("127.0.0.1", 9391)
    assert found.permission.is_on
    assert found.site.is_on
    assert found.connected_by == "parties.behind_proxy.port: 9391"
    assert not any("behind_proxy" in one for one in start_warnings(found) if "permission" not in one)
    bare.write_text(text % "{host: 10.0.0.1, port: 9391}")
    assert any(one.startswith("parties.behind_proxy.host: 10.0.0.1: nothing is encrypted between the proxy and this")
               for one in start_warnings(load_settings(bare)))
