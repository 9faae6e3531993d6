"""Make the environment with FATE's components: a folder with a Python 3.11 and the packages of
requirements/fate_provider.txt. `bin/fate-provider install` runs this with the Python of the project.

The environment is complete when its stamp is there, which is written last; then nothing is done again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = CHECKOUT / "requirements" / "fate_provider.txt"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
VERSION = "2.2.0"
PYTHON = (3, 11)
NEEDED_MB = 2_500
"""On the disk of the environment while it is made; 1,300 stay."""
NOT_TO_BE_HAD = 4
_MODULES = "import fate.components, fate.arch, torch, grpc"
_FOUND = re.compile(r"Collecting ([\w.-]+==[^\s]+)")
_SIZE = re.compile(r"Downloading \S+ \(([\d.]+) (kB|MB)\)")


class Failed(Exception):
    """The environment cannot be made; the text says why, and what to do."""


def install(folder: Path, python: str) -> Path:
    """Make the environment, unless it is there. Return its Python. Raises Failed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _installed(folder, python)


def _installed(folder: Path, python: str) -> Path:
    own, stamp = folder / "bin" / "python", folder / "stamp.json"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == _wanted(folder):
        _say(f"{folder} has FATE {VERSION} already")
        return own
    _check(folder, python)
    began = time.monotonic()
    listed = packages()
    _say(f"FATE {VERSION} into {folder}: {len(listed)} packages, about 350 MB to download, 1.3 GB on the disk")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with (folder.parent / f"{folder.name}.log").open("w", encoding="utf-8") as log:
        _run([python, "-m", "venv", "--without-pip", str(folder)], log)
        _install_torch(own, listed["torch"], log)
        first = ("torch", "setuptools")                 # setuptools compiles one of the others
        _install(own, first[1:], 1, listed, log)
        _install(own, [name for name in listed if name not in first], len(first), listed, log)
        _say("importing them once, which compiles them ...")
        _run([str(own), "-I", "-c", _MODULES], log)
    stamp.write_text(_wanted(folder), encoding="utf-8")
    size = sum(one.lstat().st_size for one in folder.rglob("*") if not one.is_symlink()) / 1e6
    _say(f"done: {size:.0f} MB in {time.monotonic() - began:.0f} s")
    return own


def _check(folder: Path, python: str) -> None:
    if shutil.which(python) is None:
        raise Failed(f"{python} is not there; FATE {VERSION} needs Python 3.11 (--python names one)")
    asked = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    if found != [str(part) for part in PYTHON]:
        version = ".".join(found) or "unknown"
        raise Failed(f"{python} is Python {version}; FATE {VERSION} needs 3.11 (--python names one)")
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(nearest).free / 1e6
    if free < NEEDED_MB:
        raise Failed(f"{nearest} has {free:.0f} MB of free space; {NEEDED_MB} are needed (--into names another folder)")


def packages() -> dict[str, str]:
    """Return the requirement of each package by its name, with the digests of its files."""
    lines = PACKAGES.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return {line.partition("==")[0]: " ".join(line.split()) for line in lines if line and not line.startswith("#")}


def _wanted(folder: Path) -> str:
    """Return the stamp: what the environment is made from, and its place, since it cannot be moved."""
    return json.dumps({"at": str(folder), "packages": hashlib.sha256(PACKAGES.read_bytes()).hexdigest()})


def _install_torch(own: Path, torch: str, log: TextIOWrapper) -> None:
    """Install torch from the configured indexes if they have the build for processors, else from PyTorch's own."""
    name = torch.partition(" ")[0]
    _say(f"{name}, the largest: 190 MB, 750 MB on the disk ...")
    pip = _pip(own, [torch])
    if _lines_of(pip, log) and _lines_of([*pip, "--index-url", CPU_INDEX], log):
        raise Failed(_reason(log, f"{name} cannot be installed, also not from {CPU_INDEX}"))


def _install(own: Path, names: Sequence[str], done: int, listed: Mapping[str, str], log: TextIOWrapper) -> None:
    """Install these packages of all that are listed; so many are done."""
    if _lines_of(_pip(own, [listed[name] for name in names]), log, done, len(listed)):
        what = "the packages cannot be installed; mmh3 is compiled, which needs a C++ compiler (g++)"
        raise Failed(_reason(log, what))


def _pip(own: Path, listed: Sequence[str]) -> list[str]:
    """Return the command of pip that installs these: files with other digests are refused, and what is compiled uses
    what is installed, since pip would download setuptools for it without a digest."""
    chosen = own.parents[1] / "installing.txt"
    chosen.write_text("".join(f"{one}\n" for one in listed), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(own), "install", "--no-deps", "--no-compile"]
    return [*pip, "--progress-bar", "off", "--no-build-isolation", "--require-hashes", "-r", str(chosen)]


def _lines_of(argv: Sequence[str], log: TextIOWrapper, done: int = 0, total: int = 0) -> int:
    """Run pip, write what it prints to the log, and say which package it is at. Return its exit code."""
    at, name, megabytes = done, "", 0.0
    for line in _printed(argv, log):
        if (found := _FOUND.match(line)) and total:
            at, name = at + 1, found[1]
        elif (size := _SIZE.search(line)) and total:
            megabytes += float(size[1]) / (1 if size[2] == "MB" else 1_000)
            _say(f"[{at}/{total}] {name} {size[1]} {size[2]} ({megabytes:.0f} MB so far)")
        elif line.startswith(("Installing collected", "Building wheel")) and total:
            _say(line.partition(":")[0].strip() + " ...")
        if line.startswith("exit "):
            return int(line.removeprefix("exit "))
    raise AssertionError("a process has an exit code")


def _printed(argv: Sequence[str], log: TextIOWrapper) -> Iterator[str]:
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment()) as run:
        assert run.stdout is not None
        for line in run.stdout:
            log.write(line)
            yield line.strip()
    yield f"exit {run.returncode}"


def _run(argv: Sequence[str], log: TextIOWrapper) -> None:
    log.flush()
    if subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, env=_environment(), check=False).returncode:
        raise Failed(_reason(log, f"{' '.join(argv[:3])} failed"))


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    for key in ("PIP_NO_INPUT", "PYTHONNOUSERSITE", "PIP_DISABLE_PIP_VERSION_CHECK"):
        kept[key] = "1"
    return {**kept, "PIP_USER": "0"}


def _reason(log: TextIOWrapper, what: str) -> str:
    log.flush()
    lines = Path(log.name).read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.strip() for line in lines if "ERROR" in line or "Error" in line]
    return f"{what}: {(errors or lines or ['no reason given'])[-1]} (the log is {log.name})"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/fate-provider", description=f"FATE {VERSION} as a provider.")
    commands = parser.add_subparsers(required=True, metavar="install")
    command = commands.add_parser("install", help="make the environment")
    folder = CHECKOUT / ".cache" / f"fate-{VERSION}"
    command.add_argument("--into", type=Path, default=folder, help="its folder (default: %(default)s)")
    own = sys.executable if sys.version_info[:2] == PYTHON else "python3.11"
    command.add_argument("--python", default=own, help="a Python 3.11 (default: %(default)s)")
    command.add_argument("--json", action="store_true", help="print the path of its Python as JSON, for programs")
    chosen = parser.parse_args(arguments)
    try:
        python = install(Path(os.path.abspath(chosen.into)), chosen.python)
    except (Failed, OSError) as error:
        _say(f"Error: {error}")
        return NOT_TO_BE_HAD if isinstance(error, Failed) else 1
    if chosen.json:
        sys.stdout.write(json.dumps({"python": str(python)}) + "\n")
        return 0
    _say("Add this to service_conf.yaml and restart the server; flow provider list says when the components are ready:")
    sys.stdout.write(f"providers:\n  fate: {{version: {VERSION}, python: {python}}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
