"""Running the component of a worker in this process, by the command of its provider."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import signal
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from enum import Enum
from importlib.abc import InspectLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

PACKAGE = Path(__file__).parents[2]
INPUTS, TABLES = "provider_inputs.json", "provider_tables.json"
"""Files in the folder of the worker: the data frames that are made first, and those that become tables, too."""
_PR_SET_PDEATHSIG = 1


def run(module: str, folder: str) -> None:
    """Run the component on the files in the folder of its worker. Ends with what its command raises, or returns.

    FATE forks processes that send messages, too, some of them after it has sent some itself: gRPC has to know."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")
    fork_pools_early()
    pickle_members_by_value()
    package, has_tables = module.partition(".")[0], os.path.exists(os.path.join(folder, TABLES))
    if os.path.exists(os.path.join(folder, INPUTS)) and not _Frames(package, folder, "make_inputs").run():
        sys.exit(1)                      # the file that the child has written says why
    tables = _Frames(package, folder, "write_tables") if has_tables else None
    sys.argv = [
        module, "component", "execute", "--process-tag", os.path.basename(folder),
        "--config", os.path.join(folder, "provider_task.yaml"),
        "--execution-final-meta-path", os.path.join(folder, "provider_result.json"),
    ]  # fmt: skip
    try:
        _run_as_main(module)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    if tables is not None:
        tables.run()


def fork_pools_early() -> None:
    """Let each pool of processes fork when it is made, and not at its first use.

    FATE makes its pool before it sends a message; some components (SSHE) use it first afterwards. gRPC 1.62 ends such
    a late child now and then (`Failed to shutdown gRPC Core after fork()`), and the pool is broken then."""
    made = ProcessPoolExecutor.__init__

    def make(self: ProcessPoolExecutor, *arguments: Any, **more: Any) -> None:
        made(self, *arguments, **more)
        self.submit(int).result()          # all its processes are forked before this returns

    ProcessPoolExecutor.__init__ = make  # type: ignore[method-assign]


def pickle_members_by_value() -> None:
    """Let members of enumerations be pickled by their values, as all Pythons do but the first releases of 3.11.

    Those, of which Debian 12 has one, pickle a call of `getattr`, and FATE lets no other party call that."""
    own = Enum.__reduce_ex__
    if "getattr" in own.__code__.co_names:
        own.__code__ = _by_value.__code__         # classes have copies of the function


def _by_value(self: Enum, _protocol: int) -> tuple[type[Enum], tuple[Any]]:
    return self.__class__, (self._value_,)


def _run_as_main(name: str) -> None:
    """Do what `python -m NAME` does, here. Raises ImportError, and what the module raises.

    `runpy` does the same, but Python knows no file of its functions: FATE lists its callers again and again, and each
    time Python would look for such a file in all modules."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or not isinstance(spec.loader, InspectLoader) or (code := spec.loader.get_code(spec.name)) is None:
        raise ImportError(f"{name} is no module that can be run")
    main = importlib.util.module_from_spec(spec)
    main.__name__ = "__main__"
    sys.modules["__main__"], sys.argv[0] = main, str(spec.origin)
    exec(code, vars(main))  # noqa: S102  # the provider's own command


class _Frames:
    """A function of `frames.py` in a child of its own, which waits until it may run.

    So all that is imported and used for it is gone with the child, and the child has none of the threads that the
    component starts meanwhile. It ends with this process."""

    def __init__(self, package: str, folder: str, function: str) -> None:
        with suppress(ModuleNotFoundError):                        # the child says it
            importlib.import_module(f"{package}.arch.dataframe")   # here, since the component imports it, too
        waits, self._may_run = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._may_run)
            _become_frames(package, folder, function, waits)
        os.close(waits)

    def run(self) -> bool:
        """Run it to its end. Return whether it succeeded."""
        with suppress(BrokenPipeError):          # it was killed
            os.write(self._may_run, b"1")
        os.close(self._may_run)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1]) == 0


def _become_frames(package: str, folder: str, function: str, waits: int) -> NoReturn:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.read(waits, 1) == b"1":
            imported("fate_flow", PACKAGE / "__init__.py", [str(PACKAGE)])
            frames = importlib.import_module("fate_flow.components.provider_process.frames")
            code = getattr(frames, function)(package, folder)
    except BaseException:  # noqa: BLE001  # as Python itself does at the end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def imported(name: str, path: Path, folders: list[str] | None = None) -> ModuleType:
    """Import a module from its file. `folders`: with its submodules, if it is a package; what lies beside it stays
    unknown, since it is of another environment."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
