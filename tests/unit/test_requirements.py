"""`bin/*` installs locked versions with hashes; the locks, setup.cfg and docs/reference/dependencies.md agree."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def script(name: str) -> Any:
    """A module of bin/."""
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / "bin" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module          # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


LOCK = script("_lock")
LOCKS = [name for group in LOCK.groups() for name in group]


def locked_lines(name: str) -> list[tuple[Requirement, str]]:
    """Each requirement of a lock with what follows it."""
    text = (CHECKOUT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    logical = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return [(Requirement(line.partition(" --hash")[0]), line) for line in logical]


def versions(name: str) -> dict[str, str]:
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one, _ in locked_lines(name)}


def requirements(group: Iterable[str]) -> list[Requirement]:
    return [Requirement(one) for one in group]


def needed(roots: Iterable[Requirement]) -> set[str]:
    """The names of what these need, as what is installed says."""
    found: set[str] = set()
    left = [(one, extra) for one in roots for extra in ("", *one.extras)]
    seen = set()
    while left:
        one, extra = left.pop()
        name = canonicalize_name(one.name)
        if (name, extra) in seen or (one.marker and not one.marker.evaluate({"extra": extra})):
            continue
        seen.add((name, extra))
        found.add(name)
        for text in metadata.requires(name) or []:
            follows = Requirement(text)
            if follows.marker is None or follows.marker.evaluate({"extra": extra}):
                left += [(Requirement(text.partition(";")[0]), other) for other in ("", *follows.extras)]
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_locked_to_a_version_and_the_digests_of_its_files(name: str) -> None:
    lines = locked_lines(name)
    assert lines
    for requirement, line in lines:
        assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier)), line
        assert HASH.search(line), line


@pytest.mark.parametrize(("name", "group"), [
    (name, wanted) for group in LOCK.groups() for name, wanted in group.items()
])  # fmt: skip
def test_a_lock_has_what_is_asked_for(name: str, group: list[str]) -> None:
    """When this fails: run bin/lock (docs/reference/dependencies.md)."""
    found = versions(name)
    for one in requirements(group):
        assert one.specifier.contains(found[canonicalize_name(one.name)]), one


def test_every_lock_is_looked_at() -> None:
    assert {path.stem for path in (CHECKOUT / "requirements").glob("*.txt")} == set(LOCKS)


def test_a_requirement_that_pypi_does_not_have_brings_its_digests_along() -> None:
    asked = (CHECKOUT / "requirements" / "fate_provider.in").read_text(encoding="utf-8")
    [torch] = [line for line in asked.splitlines() if "--hash" in line]
    [(_, found)] = [(one, line) for one, line in locked_lines("fate_provider") if one.name == "torch"]
    assert HASH.findall(found) == HASH.findall(torch) != []
    text = LOCK.with_given("a==1\n", {"torch==2+cpu": ["sha256:0", "sha256:1"]})
    assert text == "a==1\ntorch==2+cpu ; sys_platform == 'linux' \\\n    --hash=sha256:0 \\\n    --hash=sha256:1\n"


def test_fates_components_are_installed_by_their_digests_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without build isolation: pip would download what compiles a package without a digest."""
    provider, installed, commands = script("_fate_provider"), list[str](), list[list[str]]()

    def pip(argv: list[str], log: object) -> Iterator[str]:
        assert argv[-4:-1] == ["--no-build-isolation", "--require-hashes", "-r"]
        installed.extend(Path(argv[-1]).read_text(encoding="utf-8").splitlines())
        yield "exit 0"

    monkeypatch.setattr(provider, "_printed", pip)
    monkeypatch.setattr(provider, "_run", lambda argv, log: commands.append(argv))
    monkeypatch.setattr(provider, "_check", lambda folder, python: None)
    provider.install(tmp_path / "fate", "python3.11")
    assert [one[1:3] for one in commands] == [["-m", "venv"], ["-I", "-c"]]
    assert [one.partition("==")[0] for one in installed[:2]] == ["torch", "setuptools"]
    expected = [" ".join(line.split()) for _, line in locked_lines("fate_provider")]
    assert sorted(installed) == sorted(expected)


def test_a_server_has_the_versions_that_the_tests_ran_with() -> None:
    test = versions("test")
    for name in ("server", "build"):
        assert {one: test.get(one, version) for one, version in versions(name).items()} == versions(name)


@pytest.mark.parametrize("name", ["server", "test"])
def test_a_lock_has_nothing_else(name: str) -> None:
    group, *_ = LOCK.groups()
    assert needed(requirements(group[name])) == {
        canonicalize_name(one.name) for one, _ in locked_lines(name) if one.marker is None or one.marker.evaluate()
    }


def test_what_is_locked_is_what_is_installed() -> None:
    for one, line in locked_lines("test"):
        if one.marker is None or one.marker.evaluate():
            assert one.specifier.contains(metadata.version(one.name)), line


def rows(section: str) -> dict[str, list[str]]:
    """The cells of the table in the document, by package."""
    text = (CHECKOUT / "docs" / "reference" / "dependencies.md").read_text(encoding="utf-8")
    body = text.partition(f"<!-- {section} -->")[2].partition("<!-- ")[0]
    lines = [line for line in body.splitlines() if line.startswith("| [")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {re.sub(r"\[(.*)\]\(.*", r"\1", found[0]): found[1:] for found in cells}


@pytest.mark.parametrize("group", LOCK.groups(), ids=LOCK.section_of)
def test_the_table_has_every_locked_package_with_version_licence_and_upkeep(group: dict[str, list[str]]) -> None:
    found = rows(LOCK.section_of(group))
    assert {name: cells[0] for name, cells in found.items()} == LOCK.versions_of(group)
    for name, (_, released, *said) in found.items():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", released), name
        assert len(said) == 3, name
        assert all(said), name


def test_licences_are_those_that_the_packages_name() -> None:
    found = rows("server test build lock")
    for name in versions("test"):
        said = metadata.metadata(name).get("License-Expression") if name in found else None
        assert said in (None, found[name][2]), name


def test_versions_are_written_into_the_rows_of_one_table_alone() -> None:
    row = "| [click](x) | {} | {} | BSD | a | b |\n"
    text = f"<!-- a b -->\n{row.format(1, 'then')}<!-- c -->\n{row.format(1, 'then')}"
    expected = f"<!-- a b -->\n{row.format(1, 'then')}<!-- c -->\n{row.format('2.0', 'now')}"
    assert LOCK.with_versions(text, {"click": "2.0"}, {"click": "now"}, "c") == expected


def test_the_pip_of_an_interpreter_without_one_is_locked_too() -> None:
    text = (CHECKOUT / "requirements" / "build.txt").read_text(encoding="utf-8")
    wanted = script("_pip_bootstrap").Locked.read(text)
    assert wanted.version == versions("build")["pip"]
    assert len(wanted.sha256) >= 1
    assert wanted.is_wheel(f"pip-{wanted.version}-py3-none-any.whl")
    assert not wanted.is_wheel("pip-1.0-py3-none-any.whl")


@contextmanager
def index(target: str = "") -> Iterator[tuple[str, list[str | None]]]:
    """An index on loopback that redirects to `target`, if there is one; its port, and the logins that it was sent."""
    logins: list[str | None] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.append(self.headers["Authorization"])
            self.send_response(302 if target else 200)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", logins
        finally:
            server.shutdown()
            thread.join()


def test_the_login_of_an_index_does_not_follow_a_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap = script("_pip_bootstrap")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("PIP_PROXY", raising=False)
    with index() as (other, other_logins), index(f"http://{other}/pip/") as (first, first_logins):
        assert bootstrap.Fetcher(bootstrap.Options()).fetch(f"http://ann:a%40b@{first}/pip/") == b""
    assert first_logins == ["Basic " + b64encode(b"ann:a@b").decode()]
    assert other_logins == [None]


ENVIRONMENT = """
. "$0"
FATE_FLOW_VENV=$1/venv; FATE_FLOW_PYTHON=$1/venv/bin/python
_env_make() { echo made from "${FATE_FLOW_CHOSEN:-any}"; }
[ -e "$1/venv" ] || { mkdir -p "$1/venv/bin"; ln -s "$2" "$FATE_FLOW_PYTHON"; _env_stamp "extras: test"; }
project_env test
"""
"""Beside an environment of the Python `$2`: says from what `project_env` would make one instead, if it would."""


def made(folder: Path, chosen: str | None) -> tuple[str, str]:
    """What is said if this Python is chosen, and the error."""
    environment = {key: value for key, value in os.environ.items() if key != "FATE_FLOW_BASE_PYTHON"}
    environment |= {} if chosen is None else {"FATE_FLOW_BASE_PYTHON": chosen}
    done = subprocess.run(
        ["bash", "-c", ENVIRONMENT, CHECKOUT / "bin" / "_env.sh", folder, sys.executable], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=180, check=False,
    )
    return done.stdout, done.stderr


@pytest.mark.long
def test_an_environment_is_made_again_if_another_python_is_chosen(tmp_path: Path) -> None:
    """`another` answers as a Python of another place would."""
    base = str(Path(sys.executable).resolve())
    assert made(tmp_path, None) == made(tmp_path, base) == made(tmp_path, sys.executable) == ("", "")
    another = tmp_path / "python"
    another.write_text(f'#!/bin/bash\ncase "$*" in *realpath*) echo "$0" ;; *) exec {base} "$@" ;; esac\n')
    another.chmod(0o700)
    assert made(tmp_path, "./python") == ("made from ./python\n", "")
    assert made(tmp_path, str(another)) == (f"made from {another}\n", "")
    assert made(tmp_path, None) == ("", "")


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [("./none", "is not there, or cannot be executed"), ("./old", "is 3.10"), ("./broken", "does not run")],
)
def test_a_python_that_cannot_be_used_is_named(tmp_path: Path, chosen: str, reason: str) -> None:
    for name, does in (("old", 'echo "is 3.10"; exit 1'), ("broken", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o700)
    assert made(tmp_path, chosen) == (
        "",
        f"fate_flow: FATE_FLOW_BASE_PYTHON: {chosen} {reason}; name a Python 3.11, 3.12 or 3.13, as a path or a name on"
        " PATH, or unset the variable\n",
    )
