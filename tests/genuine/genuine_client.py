"""The genuine client as its users have it: `flow` and `pipeline` on the command line, the SDK in a script.

A client keeps which server it talks to in files inside its own packages. So each gets a copy of these packages, and
all of them share one environment, which no test writes to.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from tests.kit.servers.decisions import decided

SECONDS = 240.0
_PACKAGES = ("flow_client", "flow_sdk", "pipeline")
OF_FATE_2 = ("fate_client",)
"""The packages of the client of FATE 2."""
_WITHOUT_TORCH = "Import torch failed"          # its first line, where torch is missing
_folders = count()


@dataclass(frozen=True)
class Printed:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON that it printed."""
        text = "\n".join(line for line in self.out.splitlines() if not line.startswith(_WITHOUT_TORCH))
        assert "{" in text, f"no JSON\n{self}"
        found = json.loads(text[text.index("{"):])
        assert isinstance(found, dict)
        return found


Flow = Callable[..., Printed]
Sdk = Callable[[str, Mapping[str, Any]], Any]
"""What `client.<name>(**arguments)` returned; `{"raised": ...}` when it raised."""


class GenuineClient:
    """One installation of the client."""

    def __init__(self, python: Path, folder: Path, packages: Sequence[str] = _PACKAGES) -> None:
        self._python = python
        self.folder = folder
        self._packages = folder / "site packages"
        installed = next(python.parents[1].glob("lib/python*/site-packages"))
        for name in packages:
            shutil.copytree(installed / name, self._packages / name)
        (folder / "home").mkdir(parents=True, exist_ok=True)

    def init(self, url: str, *keys: str) -> Printed:
        """Has `flow` and `pipeline` talk to this server, with these options for its keys."""
        text = init(url, *keys)
        done = self._call([self._script("pipeline"), *text])
        assert "succeeded" in done.out, done
        return self.flow(*text)

    def flow(self, *text: str) -> Printed:
        return decided(lambda: self._call([self._script("flow"), *text]), lambda printed: printed.out)

    @contextmanager
    def sdk(self, url: str, *keys: str) -> Iterator[Sdk]:
        """A FlowClient of this server, in one process that lives as long as the block."""
        address = urlsplit(url)
        with self._served_by("sdk_script.py", str(address.hostname), str(address.port), *keys) as ask:
            yield lambda name, arguments: ask([name, arguments])[0]

    def forked_flow(self, script: str = "flow_forks.py") -> AbstractContextManager[Flow]:
        """`flow`, one command after another, each in a process of its own that is forked from one that has the client
        imported: what is asked and printed is the same, and it takes a tenth of the time."""
        return self._forked(script)

    def forked_pipeline(self, script: str = "pipeline_script.py") -> AbstractContextManager[Flow]:
        """The same for the steps of this script."""
        return self._forked(script)

    @contextmanager
    def _forked(self, script: str) -> Iterator[Flow]:
        with self._served_by(script) as ask:
            yield lambda *text: decided(lambda: Printed(*ask(list(text))), lambda printed: printed.out)

    @contextmanager
    def _served_by(self, script: str, *text: str) -> Iterator[Callable[[object], list[Any]]]:
        """A process in the client's environment that answers a line of JSON with another."""
        argv = [str(self._python), str(Path(__file__).with_name("in_client") / script), *text]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment(),
            cwd=self._a_folder(),
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield partial(_asked, process.stdin, process.stdout)
            process.stdin.close()

    def _script(self, name: str) -> str:
        return str(self._python.with_name(name))

    def _call(self, argv: list[str]) -> Printed:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, cwd=self._a_folder(),
            env=self._environment(), check=False,
        )
        return Printed(done.returncode, done.stdout, done.stderr)

    def _a_folder(self) -> Path:
        """The client unpacks archives in its current folder: calls that run side by side need one each."""
        folder = self.folder / "calls" / str(next(_folders))
        folder.mkdir(parents=True)
        return folder

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return {**kept, "HOME": str(self.folder / "home"), "PYTHONPATH": str(self._packages), "LC_ALL": "C.UTF-8"}


def init(url: str, *keys: str) -> tuple[str, ...]:
    """The words after `flow` or `pipeline` that have it talk to this server."""
    address = urlsplit(url)
    return ("init", "--ip", str(address.hostname), "--port", str(address.port), *keys)


def _asked(requests: IO[str], answers: IO[str], request: object) -> list[Any]:
    requests.write(json.dumps(request) + "\n")
    requests.flush()
    line = answers.readline()
    while not line.startswith("["):         # what the client prints on its way
        assert line, "the process has ended"
        line = answers.readline()
    found = json.loads(line)
    assert isinstance(found, list)
    return found
