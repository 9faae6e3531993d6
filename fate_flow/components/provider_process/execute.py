"""The worker of a provider's component: `PYTHON -I execute.py MODULE CONFIG RESULT [SOCKET]`.

The Python of the provider runs this file. A child becomes the component, of this process or of the warm process that
listens at SOCKET (`warm.py`). This process serves FATE's transport to it (`transport.py`), and makes our result file
from that of the component. The component ends with this process. Its own child is forked first: a process with the
threads of gRPC must not fork.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, Protocol

PACKAGE = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1
_FAILED = 1
_CONNECT_SECONDS = 10.0

log = logging.getLogger("fate_flow.provider")


class Component(Protocol):
    """The process of the component. It waits until it may begin."""

    def begin(self) -> None: ...

    def exit_code(self) -> int:
        """Wait for its end. Return its exit code; that of a signal is negative."""


def main(module: str, config: str, result: str, warm: str = "") -> int:
    """Run the component to its end, and return the exit code: 0 if it succeeded."""
    folder = Path(config).parent
    component: Component = _warm(warm, folder) or Forked(module, folder)
    _make_our_package_importable()
    with open(config, encoding="utf-8") as file:
        ours = json.load(file)
    server = _prepare(ours, folder)
    component.begin()
    exit_code = component.exit_code()
    if server is not None:
        server.stop(None)
    if exit_code < 0:
        _end_like(-exit_code)
    return _write_result(ours, folder, Path(result), exit_code)


class Forked:
    """A child of this process."""

    def __init__(self, module: str, folder: Path) -> None:
        ready, self._begin = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._begin)
            _become_component(module, folder, ready)
        os.close(ready)

    def begin(self) -> None:
        os.write(self._begin, b"1")

    def exit_code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


class Warm:
    """A child of a guard, which the warm process of the provider has forked. It has imported everything."""

    def __init__(self, connection: socket.socket, folder: Path) -> None:
        self._connection, self._folder = connection, folder

    def begin(self) -> None:
        order = {"folder": str(self._folder), "cwd": os.getcwd(), "env": dict(os.environ)}
        socket.send_fds(self._connection, [json.dumps(order).encode()], [1, 2])

    def exit_code(self) -> int:
        said = self._connection.recv(16)
        return int(said) if said else -signal.SIGKILL       # the guard was killed, and the component with it


def _warm(path: str, folder: Path) -> Warm | None:
    """Return the component in a child of the warm process; None if there is no such process."""
    with suppress(OSError):
        at = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(f"/proc/self/fd/{at}/{os.path.basename(path)}")
            connection.settimeout(None)
            return Warm(connection, folder)
        finally:
            os.close(at)
    return None


def _become_component(module: str, folder: Path, ready: int) -> NoReturn:
    """In the child: wait until the configuration is there, then run the component."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.read(ready, 1) != b"1":        # the parent has died
        os._exit(_FAILED)
    os.close(ready)
    _neighbour("component").run(module, str(folder))
    sys.exit(0)


def _neighbour(name: str) -> ModuleType:
    """Return a module of this folder, which is on no path."""
    return _imported(f"_fate_flow_{name}", Path(__file__).with_name(f"{name}.py"))


def _make_our_package_importable() -> None:
    """Import `fate_flow` from its folder. What lies beside that stays unknown: it is of another environment."""
    _imported("fate_flow", PACKAGE / "__init__.py", [str(PACKAGE)])


def _imported(name: str, path: Path, folders: list[str] | None = None) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    if folders:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _prepare(ours: Mapping[str, Any], folder: Path) -> Any:
    """Write the configuration of the component; return the service that it talks to, None without gRPC."""
    files = importlib.import_module("fate_flow.components.provider_process.task_files")
    server, port = _served(ours["conf"]["federation"]["metadata"])
    (folder / files.RESULT).touch(mode=0o600)          # FATE asks that the file exists
    for one in ours["output_artifacts"].values():
        if one["uri"].startswith("file://"):
            Path(one["uri"].removeprefix("file://")).parent.mkdir(exist_ok=True)
    files.write_whole(folder / files.CONFIG, json.dumps(files.provider_config(ours, folder, port)))
    return server


def _served(federation: Mapping[str, Any]) -> tuple[Any, int | None]:
    """Start FATE's transport, and return its server and port. Without grpcio there is none: a component of such a
    provider may talk to the exchange as ours do."""
    try:
        import grpc  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None, None
    from fate_flow.components.base.exchange import open_http_channel
    from fate_flow.components.provider_process.transport import Bridge, serve
    from fate_flow.core.model.spec import Party

    def party(one: Mapping[str, str]) -> Party:
        return Party(one["role"], one["partyid"])

    me, exchange = party(federation["parties"]["local"]), federation["exchange"]
    others = tuple(party(one) for one in federation["parties"]["parties"] if party(one) != me)
    channel = open_http_channel(exchange["url"], exchange["token"])
    return serve(Bridge(channel, federation["federation_id"], me, others), grpc)


def _write_result(ours: Mapping[str, Any], folder: Path, path: Path, exit_code: int) -> int:
    """Make our result file from that of the component, if it has left one."""
    from fate_flow.components.provider_process import task_files

    try:
        text = (folder / task_files.RESULT).read_text(encoding="utf-8")
        if not text:
            return exit_code or _FAILED
        result = task_files.our_result(json.loads(text), ours, folder)
    except (OSError, LookupError, TypeError, ValueError, AttributeError):
        log.exception("the result file of the component cannot be used")
        return exit_code or _FAILED
    task_files.write_whole(path, json.dumps(result))
    return exit_code if result["status"]["code"] == 0 else exit_code or _FAILED


def _end_like(number: int) -> None:
    """End by the signal that has ended the component: the server reads from it what happened."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
