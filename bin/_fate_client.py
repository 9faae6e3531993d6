"""Install the genuine FATE client in its own environment, `.cache/fate_client`; print the path of its Python.

It needs older releases of click and urllib3 than ours, so it never shares an environment with the server. The
environment is made once; a later run only checks the stamp, which is written last. This script runs with the Python of
the project, whose pip fills the new environment.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".cache"
ENVIRONMENT = CACHE / "fate_client"
LOG = CACHE / "fate_client.log"
NOT_TO_BE_HAD = 4

PACKAGES = CHECKOUT / "requirements" / "fate_client.txt"
"""Locked by bin/lock (docs/reference/dependencies.md)."""

_IMPORTS = "import flow_client.flow, flow_sdk.client, pipeline.backend.pipeline, pipeline.component, pandas"


class NotToBeHad(Exception):
    """The client is not installed and cannot be downloaded."""


def provide() -> Path:
    """Return the Python of the environment; make the environment if needed. Raise NotToBeHad."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "fate_client.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = ENVIRONMENT / "stamp.json"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != _wanted():
            _make()
            stamp.write_text(_wanted(), encoding="utf-8")
    return _python()


def _wanted() -> str:
    """Return the stamp: what the environment is made from, and its place, since it cannot be moved."""
    digest = hashlib.sha256(PACKAGES.read_bytes()).hexdigest()
    return json.dumps({"at": str(ENVIRONMENT), "python": sys.version, "packages": digest})


def _python() -> Path:
    return ENVIRONMENT / "bin" / "python"


def _make() -> None:
    sys.stderr.write("downloading the genuine FATE client into .cache (once; the log is .cache/fate_client.log) ...\n")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment = {
        **kept, "PIP_CACHE_DIR": str(CACHE / "pip"), "PIP_USER": "0", "PIP_NO_INPUT": "1", "PYTHONNOUSERSITE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": str(CACHE),
    }
    pip = [sys.executable, "-m", "pip", "--python", str(_python()), "install", "--progress-bar", "off", "--no-deps"]
    with LOG.open("w", encoding="utf-8") as log:
        for argv in (
            [sys.executable, "-m", "venv", "--without-pip", str(ENVIRONMENT)],
            [*pip, "--require-hashes", "-r", str(PACKAGES)],
            [str(_python()), "-c", _IMPORTS],
        ):
            done = subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False)
            if done.returncode:
                raise NotToBeHad(_reason())


def _reason() -> str:
    lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if "ERROR" in line or "Error" in line]
    return f"fate_client cannot be downloaded: {(errors or lines or ['no reason given'])[-1]} (see .cache/{LOG.name})"


def main() -> int:
    try:
        python = provide()
    except (NotToBeHad, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return NOT_TO_BE_HAD if isinstance(error, NotToBeHad) else 1
    sys.stdout.write(json.dumps({"python": str(python)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
