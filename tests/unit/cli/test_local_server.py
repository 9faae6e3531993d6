"""`flow` finds the keys of a server on the same machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.cli.connection import local_server, settings_file
from fate_flow.cli.connection.local_server import home_of_local_server, keys_of_local_server
from fate_flow.cli.connection.settings_file import Address, BadServer, find_server
from fate_flow.settings.client_keys import keys_file, make_client_keys


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """That of a server which runs here: this process has its lock."""
    found = tmp_path / "a home"
    (found / "run").mkdir(parents=True)
    with (found / "run" / "server.lock").open("w"):
        yield found


def listening(address: str = "127.0.0.1") -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")


@pytest.mark.parametrize(("bound", "asked"), [
    ("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"),
    ("127.0.0.2", "127.0.0.2"),
])  # fmt: skip
def test_a_server_of_this_machine_is_found_by_its_url(home: Path, bound: str, asked: str) -> None:
    with listening(bound) as one:
        port = one.getsockname()[1]
        assert home_of_local_server(f"http://{asked}:{port}") == home
        assert keys_of_local_server(f"http://{asked}:{port}") is None, "it has made none"
        keys = make_client_keys(home)
        assert keys_of_local_server(f"http://{asked}:{port}") == keys
        assert find_server(f"http://{asked}:{port}/") == Address(
            f"http://{asked}:{port}", keys.app_key, keys.secret_key
        )


def test_others_are_not(home: Path) -> None:
    with listening("127.0.0.2") as one:
        port = one.getsockname()[1]
        for url in (f"http://127.0.0.1:{port}", f"http://10.0.0.1:{port}", f"http://some.example:{port}"):
            assert home_of_local_server(url) is None
            assert find_server(url) == Address(url)


def test_the_order_of_its_processes_does_not_matter(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that has the socket and not the lock may come first: after the highest number they begin anew."""
    with listening() as one, subprocess.Popen(["sleep", "600"], pass_fds=[one.fileno()]) as child:
        names = {"/proc": [str(child.pid), str(os.getpid())]}
        listed = os.listdir
        monkeypatch.setattr(local_server.os, "listdir", lambda path: names.get(path) or listed(path))
        try:
            assert home_of_local_server(f"http://127.0.0.1:{one.getsockname()[1]}") == home
        finally:
            child.kill()


def test_what_listens_and_is_no_server_has_no_keys(tmp_path: Path) -> None:
    with listening() as one:
        assert home_of_local_server(f"http://127.0.0.1:{one.getsockname()[1]}") is None


def test_an_address_that_init_remembered(home: Path) -> None:
    keys = make_client_keys(home)
    with listening() as one:
        known = {"ip": "127.0.0.1", "port": one.getsockname()[1]}
        settings_file.store(known)
        assert find_server(None).secret_key == keys.secret_key
        settings_file.store({**known, "app_key": "others", "secret_key": "of-others"})
        assert find_server(None).secret_key == "of-others"


def test_a_configuration_leads_to_the_keys_of_its_home(home: Path) -> None:
    conf = home / "conf" / "service_conf.yaml"
    conf.parent.mkdir()
    conf.write_text("fateflow: {http_port: 9380}\nauthentication: {client: {switch: null}}\n")
    settings_file.store({"server_conf_path": str(conf)})
    assert find_server(None) == Address("http://127.0.0.1:9380")
    keys = make_client_keys(home)
    assert find_server(None) == Address("http://127.0.0.1:9380", keys.app_key, keys.secret_key)
    elsewhere = conf.with_name("local.service_conf.yaml")
    elsewhere.write_text("home: ../elsewhere\n")
    assert find_server(None) == Address("http://127.0.0.1:9380")
    elsewhere.write_text("authentication: {client: {switch: false}}\n")
    assert find_server(None) == Address("http://127.0.0.1:9380")
    elsewhere.unlink()
    keys_file(home).chmod(0o644)
    with pytest.raises(BadServer, match=r"is of mode 0644.*chmod 600; run flow as the user of the server"):
        find_server(None)
