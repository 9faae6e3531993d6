"""The worker of a provider's component: `PYTHON -I execute.py MODULE CONFIG RESULT [SOCKET]`.

The Python of the provider runs this file. A child becomes the component, of this process or of the warm process that
listens at SOCKET (`warm.py`). This process serves FATE's transport to it (`transport.py`), takes its metrics
(`metrics.py`), and makes our result file from that of the component. The component ends with this process. Its own
child is forked first: a process with threads must not fork.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import logging
import logging.config
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
BESIDE = "beside.json"

log = logging.getLogger("fate_flow.provider")


class Component(Protocol):
    """The process of the component. It waits until it may begin."""

    def begin(self) -> None: ...

    def exit_code(self) -> int:
        """Wait for its end. Return its exit code; that of a signal is negative."""


def main(module: str, config: str, result: str, warm: str = "") -> int:
    """Run the component to its end, and return the exit code: 0 if it succeeded."""
    folder = Path(config).parent
    sys.modules["_fate_flow_execute"] = sys.modules[__name__]      # the component will be `__main__`: _run_as_main
    _reach_this_machine_directly()
    component: Component = _warm(warm, folder) or Forked(module, folder)
    _make_our_package_importable()
    ours = _yaml_text().read_yaml_text(Path(config).read_text(encoding="utf-8"))
    _log_as(ours["conf"].get("logger", {}).get("config", {"version": 1}))
    received, receiver = _receiver(ours)
    server = _prepare(ours, folder, receiver.uri)
    component.begin()
    exit_code = component.exit_code()
    receiver.close()
    if server is not None:
        server.stop(None)
    if exit_code < 0:
        _end_like(-exit_code)
    return _write_result(ours, folder, Path(result), exit_code, received)


def _reach_this_machine_directly() -> None:
    """Keep the component's requests to this process away from a proxy that the environment of the server names."""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1"]))


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
        """Raises OSError if there is no guard: a connection may have waited for a warm process that was then killed."""
        self._connection, self._folder = connection, folder
        self._lines = connection.makefile("rb")
        self._guard = self._lines.readline().split()
        if not self._guard:
            raise ConnectionError("the warm process has ended")

    def begin(self) -> None:
        order = {"folder": str(self._folder), "cwd": os.getcwd(), "env": dict(os.environ)}
        socket.send_fds(self._connection, [json.dumps(order).encode()], [1, 2])
        self._note("guard", self._guard)

    def exit_code(self) -> int:
        code, *used = self._lines.readline().split() or [b""]
        self._note("used", used)
        return int(code) if code else -signal.SIGKILL       # the guard was killed, and the component with it

    def _note(self, what: str, numbers: list[bytes]) -> None:
        """Let the runner of this worker know of processes that are not below it (`engines/local/usage.py`)."""
        with suppress(OSError):
            draft = self._folder / f".{BESIDE}"
            draft.write_text(json.dumps({what: [float(one) for one in numbers]}))
            draft.replace(self._folder / BESIDE)


def _warm(path: str, folder: Path) -> Warm | None:
    """Return the component in a child of the warm process; None if there is no such process."""
    with suppress(OSError):
        at = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(f"/proc/self/fd/{at}/{os.path.basename(path)}")
            found = Warm(connection, folder)
            connection.settimeout(None)
            return found
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
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _yaml_text() -> ModuleType:
    return importlib.import_module("fate_flow.core.text.yaml_text")


def _log_as(config: Mapping[str, Any]) -> None:
    """Log into the files of the component; to stderr if that is not possible."""
    lasting = importlib.import_module("fate_flow.components.base.log_file")
    try:
        logging.config.dictConfig(lasting.with_lasting_files(config))
    except (ValueError, TypeError, AttributeError, OSError):
        logging.basicConfig()
        log.exception("the log files of the component cannot be used")


def _receiver(ours: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what collects the metrics of the component, and the address to which it sends them."""
    metrics = importlib.import_module("fate_flow.components.provider_process.metrics")
    received = metrics.received_for(ours["conf"]["federation"]["metadata"]["exchange"])
    return received, metrics.Receiver(received)


def _prepare(ours: Mapping[str, Any], folder: Path, metrics: str) -> Any:
    """Write the configuration of the component; return the service that it talks to, None without gRPC."""
    files = importlib.import_module("fate_flow.components.provider_process.task_files")
    models = importlib.import_module("fate_flow.components.provider_process.models")
    ours = {**ours, "input_artifacts": models.with_unpacked(ours["input_artifacts"], folder)}
    server, port = _served(ours["conf"]["federation"]["metadata"])
    (folder / files.RESULT).touch(mode=0o600)          # FATE asks that the file exists
    for one in ours["output_artifacts"].values():
        if one["uri"].startswith("file://"):
            Path(one["uri"].removeprefix("file://")).parent.mkdir(exist_ok=True)
    theirs = files.provider_config(ours, folder, port, metrics)
    files.write_whole(folder / files.CONFIG, _yaml_text().yaml_text(theirs))
    for name, wanted in ((files.INPUTS, files.inputs_to_make(ours)), (files.TABLES, files.tables_to_write(ours))):
        if wanted:
            files.write_whole(folder / name, json.dumps(wanted))
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
    channel = open_http_channel(exchange["url"], exchange["token"], exchange.get("servers", ""))
    return serve(Bridge(channel, federation["federation_id"], me, others), grpc)


def _write_result(ours: Mapping[str, Any], folder: Path, path: Path, exit_code: int, received: Any) -> int:
    """Make our result file from that of the component, if it has left one."""
    from fate_flow.components.provider_process import metrics, models, task_files

    try:
        if failed := task_files.failure_of_inputs(folder):
            task_files.write_whole(path, json.dumps(failed))
            return exit_code or _FAILED
        text = (folder / task_files.RESULT).read_text(encoding="utf-8")
        if not text:
            return exit_code or _FAILED
        said = json.loads(text)
        for written in task_files.metric_files(said, folder):
            metrics.add_file(received, written)
        result = task_files.our_result(said, ours, received.metrics)
        models.pack_made(result, ours, folder)
        if result["status"]["code"] == 0:
            task_files.add_tables(result, folder)
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
