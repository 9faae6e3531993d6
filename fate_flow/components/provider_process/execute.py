"""The worker of a provider's component: `PYTHON -I execute.py MODULE CONFIG RESULT`.

The Python of the provider runs this file. A child of this process becomes the component; the process itself serves
FATE's transport to it (`transport.py`), and makes our result file from that of the component. Both are in one process
group, and the child dies with its parent. The fork comes first: a process with the threads of gRPC must not fork.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import logging
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1
_FAILED, _NO_PORT = 1, b"\0"

log = logging.getLogger("fate_flow.provider")


def main(module: str, config: str, result: str) -> int:
    """Run the component to its end, and return the exit code: 0 if it succeeded."""
    folder = Path(config).parent
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tell)
        _become_component(module, folder, ready)
    os.close(ready)
    _make_our_package_importable()
    with open(config, encoding="utf-8") as file:
        ours = json.load(file)
    server = _prepare(ours, folder)
    os.write(tell, b"1")
    _, status = os.waitpid(child, 0)
    if server is not None:
        server.stop(None)
    if os.WIFSIGNALED(status):
        _end_like(os.WTERMSIG(status))
    return _write_result(ours, folder, Path(result), os.waitstatus_to_exitcode(status))


def _become_component(module: str, folder: Path, ready: int) -> None:
    """In the child: wait until the configuration is there, then run the component. Never returns."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.read(ready, 1) != b"1":        # the parent has died
        os._exit(_FAILED)
    os.close(ready)
    sys.argv = [
        module, "component", "execute", "--process-tag", folder.name, "--config", str(folder / "provider_task.yaml"),
        "--execution-final-meta-path", str(folder / "provider_result.json"),
    ]  # fmt: skip
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit(0)


def _make_our_package_importable() -> None:
    """Import `fate_flow` from its folder. What lies beside that stays unknown: it is of another environment."""
    spec = importlib.util.spec_from_file_location(
        "fate_flow", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{PACKAGE} cannot be imported")
    package = importlib.util.module_from_spec(spec)
    sys.modules["fate_flow"] = package
    spec.loader.exec_module(package)


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
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
