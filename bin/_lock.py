"""Write `requirements/*.txt`: every package that `bin/*` installs, with its version and the sha256 of its files.

uv finds the versions, for Python 3.11 to 3.13 on Linux, and for 3.11 alone where FATE's components run. It is a locked
package itself, in its own environment under `.cache/lock`. This also updates versions and dates in the tables of
docs/reference/dependencies.md; add the row of a new package by hand (tests/unit/test_requirements.py names it).
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".cache"
LOCKS = CHECKOUT / "requirements"
DOCUMENT = CHECKOUT / "docs" / "reference" / "dependencies.md"
PYTHONS = ">=3.11,<3.14"
LINE = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+]+)")
ROW = re.compile(r"(\| \[([\w.-]+)\]\(\S+\) \|)[^|]*\|[^|]*\|")
HEAD = "# Written by bin/lock; see docs/reference/dependencies.md.\n"

OTHERS = ("fate_client", "fate_client_2", "fate_provider", "flower", "flower_1_41", "xgboost", "spu", "ray", "go")
"""Environments of their own (bin/_environment.py, bin/_fate_provider.py); `requirements/*.in` says what each is for."""
COMPLETE = {"fate_provider": "==3.11.*"}
"""Locks with exactly what is asked for, without what that asks for in turn, and the Python that they are for."""
OVERRIDES = {"flower": ["certifi"], "xgboost": ["nvidia-nccl-cu12; sys_platform == 'none'"]}
"""Requirements that replace those of packages. Flower 1.42 asks for a certifi newer than any that can be downloaded;
XGBoost needs NCCL (300 MB) for several GPUs alone."""

Group = dict[str, list[str]]
"""Requirements that are resolved together, by the name of their lock file."""


def lines_of(text: str) -> list[str]:
    """Return the requirements in a file or a key of setup.cfg."""
    found = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in found if line]


def groups() -> list[Group]:
    """Return all groups to lock. A package of both `test` and `server` has the same version in both."""
    config = configparser.ConfigParser()
    config.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    server = lines_of(config["options"]["install_requires"])
    test = lines_of(config["options.extras_require"]["test"])
    build = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    others = ({name: list(_asked_for(name))} for name in OTHERS)
    return [{"server": server, "test": [*server, *test], "build": [*build, "pip"], "lock": ["uv"]}, *others]


def _asked_for(name: str) -> dict[str, list[str]]:
    """Return the requirements in a file `*.in`, each with the digests that stand there: of files that PyPI does not
    have."""
    lines = lines_of((LOCKS / f"{name}.in").read_text(encoding="utf-8"))
    return {one: digests for one, *digests in (line.split(" --hash=") for line in lines)}


def _given(name: str) -> dict[str, list[str]]:
    """Return the requirements of a lock for which uv looks up nothing, with their digests."""
    return {one: digests for one, digests in _asked_for(name).items() if digests} if name in OTHERS else {}


def section_of(group: Group) -> str:
    """Return the name of the group's table in the document."""
    return " ".join(group)


def locked(name: str) -> dict[str, str]:
    """Return the versions in one lock by package; {} if there is no lock yet."""
    path = LOCKS / f"{name}.txt"
    return dict(LINE.findall(path.read_text(encoding="utf-8"))) if path.exists() else {}


def versions_of(group: Group) -> dict[str, str]:
    return {name: version for one in group for name, version in locked(one).items()}


def project_of(group: Group, kept: Mapping[str, str]) -> str:
    """Return a pyproject.toml for uv that requires the group; packages in `kept` keep their versions."""
    at_pypi = {name: [one for one in wanted if one not in _given(name)] for name, wanted in group.items()}
    extras = "".join(f"{name} = {json.dumps(wanted)}\n" for name, wanted in at_pypi.items())
    pythons = next((COMPLETE[name] for name in group if name in COMPLETE), PYTHONS)
    alone = [one.partition("==")[0] for name, wanted in at_pypi.items() if name in COMPLETE for one in wanted]
    return (
        f'[project]\nname = "locked"\nversion = "0"\nrequires-python = "{pythons}"\n'
        f"[project.optional-dependencies]\n{extras}"
        "[tool.uv]\nenvironments = [\"sys_platform == 'linux'\"]\n"
        f"constraint-dependencies = {json.dumps([f'{name}=={version}' for name, version in kept.items()])}\n"
        f"override-dependencies = {json.dumps([one for name in group for one in OVERRIDES.get(name, ())])}\n"
        + "".join(
            f'[[tool.uv.dependency-metadata]]\nname = "{one}"\nrequires-dist = []\n' for one in ("fate-client", *alone)
        )
    )


def lock(uv: Path, group: Group, upgraded: Collection[str]) -> dict[str, str]:
    """Write the locks of a group; return the release date of each of its packages."""
    kept = {name: version for name, version in versions_of(group).items() if upgraded and name not in upgraded}
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        Path(folder, "pyproject.toml").write_text(project_of(group, kept), encoding="utf-8")
        _run(uv, "lock", "--quiet", cwd=folder)
        for name in group:
            text = _run(
                uv, "export", "--quiet", "--frozen", "--no-emit-project", "--no-header", "--no-annotate",
                "--format", "requirements-txt", "--extra", name, cwd=folder,
            )  # fmt: skip
            (LOCKS / f"{name}.txt").write_text(HEAD + with_given(text, _given(name)), encoding="utf-8")
        return _dates(tomllib.loads(Path(folder, "uv.lock").read_text(encoding="utf-8")))


def with_given(text: str, given: Mapping[str, Sequence[str]]) -> str:
    """Return a lock with these requirements and their digests, too."""
    digests = {one: "".join(f" \\\n    --hash={digest}" for digest in found) for one, found in given.items()}
    return text + "".join(f"{one} ; sys_platform == 'linux'{found}\n" for one, found in digests.items())


def _dates(found: Mapping[str, Any]) -> dict[str, str]:
    dates = {}
    for package in found["package"]:
        files = [*package.get("wheels", ()), package.get("sdist", {})]
        times = [file["upload-time"] for file in files if "upload-time" in file]
        dates[package["name"]] = min(times, default="")[:10]
    return dates


def with_versions(text: str, versions: Mapping[str, str], dates: Mapping[str, str], section: str) -> str:
    """Return the document with these versions and dates in one section, which begins at a comment with its name."""
    head, mark, rest = text.partition(f"<!-- {section} -->")
    body, following, tail = rest.partition("<!-- ")

    def row(found: re.Match[str]) -> str:
        name = found[2].lower()
        return f"{found[1]} {versions[name]} | {dates[name]} |" if name in versions and name in dates else found[0]

    return head + mark + ROW.sub(row, body) + following + tail


def _tool() -> Path:
    """Install uv and return its path: in the locked version, the newest if none is locked."""
    environment = CACHE / "lock"
    python, wanted = environment / "bin" / "python", LOCKS / "lock.txt"
    asked = ["--require-hashes", "-r", str(wanted)] if wanted.exists() else ["uv"]
    _run(Path(sys.executable), "-m", "venv", "--without-pip", "--clear", environment)
    _run(Path(sys.executable), "-m", "pip", "--python", python, "install", "--quiet", *asked)
    return environment / "bin" / "uv"


def _run(command: Path, *arguments: object, cwd: str | Path = CHECKOUT) -> str:
    environment = {**os.environ, "UV_CACHE_DIR": str(CACHE / "uv"), "UV_PYTHON": sys.executable}
    done = subprocess.run(
        [str(command), *map(str, arguments)], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{command.name} failed with exit code {done.returncode}")
    return done.stdout


def main(arguments: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(prog="bin/lock", description=__doc__)
    parser.add_argument("name", nargs="*", help="upgrade only these packages, and add new ones")
    upgraded = {name.lower().replace("_", "-") for name in parser.parse_args(list(arguments)).name}
    uv = _tool()
    text = DOCUMENT.read_text(encoding="utf-8")
    for group in groups():
        dates = lock(uv, group, upgraded)
        text = with_versions(text, versions_of(group), dates, section_of(group))
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
