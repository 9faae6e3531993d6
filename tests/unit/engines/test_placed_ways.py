"""How a worker on a node reaches its server: its documents name a port there, which leads to the server alone."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fate_flow.components.providers.program_order import ORDER
from fate_flow.components.providers.table import PROVIDERS
from fate_flow.core.text.yaml_text import yaml_text
from fate_flow.engines.placed.way import lead_to, way_of
from fate_flow.engines.staged.places import ADDRESS, PIN
from fate_flow.gateway.workers.tls import WorkerTls
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.engines.placed_workers import way_to_listener
from fate_flow.settings.servers import OneOfServers
from fate_flow.settings.settings import Settings
from fate_flow.settings.worker_listen import WorkerListen


def documents(folder: Path, *, has_order: bool) -> None:
    exchange = {"url": "http://127.0.0.1:4000/v1/exchange", "token": "t"}
    config = {"task_id": "a", "conf": {"federation": {"metadata": {"exchange": exchange}}}}
    (folder / "config.yaml").write_text(yaml_text(config))
    if has_order:
        env = {"FATE_FLOW_EXCHANGE_URL": exchange["url"], "OTHER": "kept"}
        (folder / ORDER).write_text(json.dumps({"env": env, "argv": ["x"]}))


@pytest.mark.parametrize("has_order", [True, False])
def test_the_documents_name_the_port_of_the_node_and_are_for_their_user_alone(tmp_path: Path, has_order: bool) -> None:
    documents(tmp_path, has_order=has_order)
    lead_to(tmp_path, 5000)
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    exchange = config["conf"]["federation"]["metadata"]["exchange"]
    assert (config["task_id"], exchange) == ("a", {"url": "http://127.0.0.1:5000/v1/exchange", "token": "t"})
    if has_order:
        env = {"FATE_FLOW_EXCHANGE_URL": exchange["url"], "OTHER": "kept"}
        assert json.loads((tmp_path / ORDER).read_text()) == {"env": env, "argv": ["x"]}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_server_names_its_listener_if_it_has_one(tmp_path: Path) -> None:
    assert way_of({}) is None
    settings = Settings("9999", tmp_path)
    assert way_to_listener(EngineParts(settings, None, lambda _: None, "http://x", b"s", PROVIDERS)) == {}
    listening = replace(settings, worker_listen=WorkerListen("0.0.0.0", 9390, "login:9390"))
    for one_of in (None, OneOfServers("one", tmp_path)):
        parts = EngineParts(replace(listening, one_of=one_of), None, lambda _: None, "http://x", b"s", PROVIDERS)
        pin = WorkerTls.of(parts.settings.keys_dir).pin
        assert way_to_listener(parts) == {ADDRESS: "login:9390", PIN: pin}


def test_the_way_leads_to_the_server_with_the_pinned_key_alone(tmp_path: Path) -> None:
    tls, other = WorkerTls.of(tmp_path / "keys"), WorkerTls.of(tmp_path / "others")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve() -> None:
            for _ in range(2):
                with listener.accept()[0] as sock:
                    try:
                        with tls.context().wrap_socket(sock, server_side=True) as one:
                            one.sendall(one.recv(10)[::-1])
                    except OSError:
                        continue

        threading.Thread(target=serve, daemon=True).start()
        assert [said_over(address, pin) for pin in (tls.pin, other.pin)] == [b"olleh", b""]


def said_over(address: str, pin: str) -> bytes:
    way = way_of({ADDRESS: address, PIN: pin})
    assert way is not None
    way.begin()
    try:
        with socket.create_connection(("127.0.0.1", way.port), 30) as sock:
            sock.sendall(b"hello")
            return sock.recv(10)
    except ConnectionResetError:
        return b""
    finally:
        way.close()
