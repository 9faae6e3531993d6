"""`bin/*` installs locked versions with hashes; the locks, setup.cfg and docs/reference/dependencies.md agree."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]
LOCKS = ("server", "test", "build", "lock", "fate_client")
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


def test_a_server_has_the_versions_that_the_tests_ran_with() -> None:
    test = versions("test")
    for name in ("server", "build"):
        assert {one: test.get(one, version) for one, version in versions(name).items()} == versions(name)


@pytest.mark.parametrize("name", ["server", "test"])
def test_a_lock_has_nothing_else(name: str) -> None:
    group, _ = LOCK.groups()
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
