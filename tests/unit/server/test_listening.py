"""The sockets of a server: what is wrong with one is said in a sentence, and none of them stays open then."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.errors import FlowError
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.server.gateway_parts import _MODULES, GatewayParts
from fate_flow.server.listeners.listening import listen, listen_at
from fate_flow.settings.parties import Listen
from fate_flow.settings.settings import Settings


def open_sockets() -> set[str]:
    """The sockets of this process. Those of earlier tests may be closed at any time, by the garbage collector."""
    found = (os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd"))
    return {name for name in found if "socket:" in name}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The sockets that this thread makes: what another test has left runs in others, and may open some meanwhile."""
    found, this_thread = set[str](), threading.get_ident()
    for name in _MODULES:
        import_module(name)      # first, since a class of theirs is a subclass of the one that is replaced here

    class Noted(socket.socket):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            if threading.get_ident() == this_thread:
                found.add(os.path.realpath(f"/proc/self/fd/{self.fileno()}"))

    monkeypatch.setattr(socket, "socket", Noted)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def no_folder(path: Path) -> str:
    return f"cannot listen at {path}: "


def file_instead(path: Path) -> str:
    path.parent.write_text("")
    return f"cannot listen at {path}: "


def folder_instead(path: Path) -> str:
    path.mkdir(parents=True)
    return f"cannot listen at {path}: "


@pytest.mark.parametrize("spoil", [no_folder, file_instead, folder_instead])
def test_a_path_where_no_socket_can_be_is_named(
    spoil: Callable[[Path], str], tmp_path: Path, made: set[str]
) -> None:
    text = spoil(tmp_path / "run" / "x.sock")
    with pytest.raises(FlowError) as error:
        listen_at(tmp_path / "run" / "x.sock")
    assert error.value.message.startswith(text)
    assert made
    assert not made & open_sockets()


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made, this_thread = list[socket.socket](), threading.get_ident()

    class Noted(socket.socket):
        """Those of this thread: one that another test has left may open sockets meanwhile."""

        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            if threading.get_ident() == this_thread:
                made.append(self)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        monkeypatch.setattr(socket, "socket", Noted)
        with pytest.raises(FlowError, match=f"a.b: cannot listen on 127.0.0.1:{port}: Address already in use"):
            listen("127.0.0.1", port, "a.b")
        assert made
        assert [one.fileno() for one in made if one.fileno() >= 0] == []


def test_a_gateway_that_cannot_open_its_last_socket_leaves_none_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: set[str]
) -> None:
    settings = replace(Settings("9999", tmp_path), parties_listen=Listen("127.0.0.1", free_port()))
    OwnKeys("9999", settings.keys_dir, settings.keys_dir / "message.pem", lambda: time.time_ns() // 1_000_000).make()
    settings.run_dir.mkdir()
    settings.parties_socket.mkdir()
    made.clear()
    with pytest.raises(FlowError, match=r"parties\.sock"):
        GatewayParts.of(settings)
    assert made
    assert not made & open_sockets()

    def fails(_: Path) -> socket.socket:
        raise MemoryError

    monkeypatch.setattr("fate_flow.server.gateway_parts.listen_at", fails)
    with pytest.raises(MemoryError) as error:
        GatewayParts.of(settings)
    assert (made & open_sockets(), error.value.args) == (set(), ())
