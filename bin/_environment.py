"""Install packages for the tests in an environment of their own, below `.cache`; print the path of its Python.

`bin/_environment.py NAME`. They need other releases than ours, or are large, so they never share an environment with
the server. An environment is made once; a later run only checks the stamp, which is written last. This script runs
with the Python of the project, whose pip fills the new environment.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".cache"
NOT_TO_BE_HAD = 4


@dataclass(frozen=True)
class Environment:
    """What is installed: `lock` is the name of a file in `requirements/`, written by bin/lock
    (docs/reference/dependencies.md); `place` is below `.cache`; the code `imports` must run afterwards."""

    lock: str
    what: str
    place: str
    imports: str

    @property
    def folder(self) -> Path:
        return CACHE / self.place

    @property
    def packages(self) -> Path:
        return CHECKOUT / "requirements" / f"{self.lock}.txt"

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


_OF_FLOWER = (
    "import flwr.cli.app, flwr.client, flwr.serverapp.strategy, flwr.server.strategy, flwr.superlink.cli,"
    " flwr.superlink.main, flwr.supernode.cli, flwr.supernode.main, flwr.supercore.cli, flwr.compat.server.app,"
    " flwr.compat.client.app"
)
ENVIRONMENTS = {one.lock: one for one in (
    Environment(
        "fate_client", "the genuine FATE client", "fate_client",
        "import flow_client.flow, flow_sdk.client, pipeline.backend.pipeline, pipeline.component, pandas",
    ),
    Environment(
        "fate_client_2", "the genuine client of FATE 2", "heavy/fate_client_2",
        "import fate_client.flow_cli.flow, fate_client.flow_sdk, fate_client.pipeline, pandas, pkg_resources",
    ),
    Environment("flower", "the newest Flower", "heavy/flower", _OF_FLOWER),
    Environment("flower_1_41", "Flower 1.41", "heavy/flower_1_41", _OF_FLOWER),
    Environment("xgboost", "XGBoost", "heavy/xgboost", "import cryptography.x509, xgboost.federated"),
    Environment("spu", "SPU", "heavy/spu", "import spu.psi"),
    Environment("go", "Go", "heavy/go", "import go"),
    Environment("ray", "Ray", "heavy/ray", "import ray, ray.dashboard.dashboard, ray.scripts.scripts"),
)}  # fmt: skip


class NotToBeHad(Exception):
    """The packages are not installed and cannot be downloaded."""


def provide(wanted: Environment) -> Path:
    """Return the Python of the environment; make the environment if needed. Raise NotToBeHad."""
    wanted.folder.parent.mkdir(parents=True, exist_ok=True)
    with wanted.folder.with_name(f"{wanted.folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = wanted.folder / "stamp.json"
        text = _stamp_of(wanted)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != text:
            _make(wanted)
            stamp.write_text(text, encoding="utf-8")
    return wanted.python


def _stamp_of(wanted: Environment) -> str:
    """Return the stamp: what the environment is made from, and its place, since it cannot be moved."""
    digest = hashlib.sha256(wanted.packages.read_bytes()).hexdigest()
    return json.dumps({"at": str(wanted.folder), "python": sys.version, "packages": digest})


def _make(wanted: Environment) -> None:
    log_name = wanted.log.relative_to(CHECKOUT)
    sys.stderr.write(f"downloading {wanted.what} into .cache (once; the log is {log_name}) ...\n")
    shutil.rmtree(wanted.folder, ignore_errors=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment = {
        **kept, "PIP_CACHE_DIR": str(CACHE / "pip"), "PIP_USER": "0", "PIP_NO_INPUT": "1", "PYTHONNOUSERSITE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": str(CACHE),
    }
    pip = [sys.executable, "-m", "pip", "--python", str(wanted.python), "install", "--progress-bar", "off"]
    with wanted.log.open("w", encoding="utf-8") as log:
        for argv in (
            [sys.executable, "-m", "venv", "--without-pip", str(wanted.folder)],
            # Most modules of large packages are never imported: Python compiles those that are.
            [*pip, "--no-deps", "--no-compile", "--require-hashes", "-r", str(wanted.packages)],
            [str(wanted.python), "-c", wanted.imports],
        ):
            done = subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False)
            if done.returncode:
                raise NotToBeHad(_reason(wanted))


def _reason(wanted: Environment) -> str:
    lines = wanted.log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if "ERROR" in line or "Error" in line]
    said = (errors or lines or ["no reason given"])[-1]
    return f"{wanted.what} cannot be downloaded: {said} (see {wanted.log.relative_to(CHECKOUT)})"


def main(arguments: list[str]) -> int:
    [name] = arguments
    try:
        python = provide(ENVIRONMENTS[name])
    except (NotToBeHad, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return NOT_TO_BE_HAD if isinstance(error, NotToBeHad) else 1
    sys.stdout.write(json.dumps({"python": str(python)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
