"""Where a worker finds the servers of its party."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fate_flow.components.base.own_servers import ExchangeAddress, announced, urls_here

ONE, TWO = "http://127.0.0.1:1001", "http://127.0.0.1:1002"


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    for name, document in {
        "one": announced(ONE), "two": announced(TWO),
        "far": {"machine": "another boot", "worker_url": "http://127.0.0.1:1003"}, "odd": ["no", "server"],
    }.items():  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "one.sign").write_text("a sign")
    return tmp_path


def test_only_servers_of_this_machine_count(servers: Path) -> None:
    assert urls_here(servers) == (ONE, TWO)
    assert urls_here(servers / "missing") == ()


def test_after_a_failure_the_next_one_is_tried_and_then_the_first_again(servers: Path) -> None:
    address = ExchangeAddress(f"{ONE}/v1/exchange", str(servers))
    assert address.url == f"{ONE}/v1/exchange"
    address.try_another(f"{ONE}/v1/exchange")
    assert address.url == f"{TWO}/v1/exchange"
    address.try_another(f"{ONE}/v1/exchange")      # of a thread that was still there
    assert address.url == f"{TWO}/v1/exchange"
    address.try_another(f"{TWO}/v1/exchange")
    assert address.url == f"{ONE}/v1/exchange"


def test_a_server_that_is_back_on_another_port_is_found(servers: Path) -> None:
    address = ExchangeAddress(f"{ONE}/v1/exchange", str(servers))
    (servers / "two.json").unlink()
    (servers / "one.json").write_text(json.dumps(announced("http://127.0.0.1:1009")))
    address.try_another(address.url)
    assert address.url == "http://127.0.0.1:1009/v1/exchange"


def test_an_address_of_another_machine_is_not_asked(servers: Path) -> None:
    """A server of another machine has written the configuration of a worker that this one then started."""
    assert ExchangeAddress("http://127.0.0.1:1003/v1/exchange", str(servers)).url == f"{ONE}/v1/exchange"


def test_the_only_server_of_a_party_keeps_its_address() -> None:
    address = ExchangeAddress(f"{ONE}/v1/exchange")
    address.try_another(address.url)
    assert address.url == f"{ONE}/v1/exchange"
