"""The walls between the tests: the kit has what they share, none imports another, no file or folder is too large."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.kit.syntax import statements

pytestmark = pytest.mark.usefixtures("no_gc")

TESTS = Path(__file__).parents[1]
MOST_FILES = 20
MOST_LINES = 500
LONGER: set[str] = set()
"""Files that are to be divided."""
FULLER: set[str] = set()
"""Folders that are to be divided."""
KIT_MAY_IMPORT = ("tests.kit.", "tests.fate_1_11_2.")
"""Of the tests."""


@cache
def files() -> dict[str, Path]:
    return {path.relative_to(TESTS.parent).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}


@cache
def imports(name: str) -> frozenset[str]:
    """The modules that a file imports, also within functions and for type checkers alone."""
    return frozenset(_imports(ast.parse(files()[name].read_text(encoding="utf-8"))))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_no_file_imports_a_test() -> None:
    found = {name: {one for one in imports(name) if one.rpartition(".")[2].startswith("test_")} for name in files()}
    assert {name: tests for name, tests in found.items() if tests} == {}


def test_the_kit_knows_nothing_that_uses_it() -> None:
    found = {
        name: {one for one in imports(name) if one.startswith("tests") and not one.startswith(KIT_MAY_IMPORT)}
        for name in files() if name.startswith("tests/kit/")
    }  # fmt: skip
    assert {name: others for name, others in found.items() if others} == {}


@pytest.mark.parametrize("folder", ["tests/unit/", "tests/integration/"])
def test_beside_the_tests_stand_no_helpers(folder: str) -> None:
    helpers = [
        name for name in files() if name.startswith(folder) and not Path(name).name.startswith(("test_", "conftest."))
    ]
    assert helpers == [], "a helper belongs to tests/kit"


def test_no_two_files_have_one_name_but_in_packages() -> None:
    """pytest imports a file whose folder is no package by its name alone, and refuses another one of that name."""
    packages = {name.rpartition("/")[0] for name in files() if name.endswith("/__init__.py")}
    names = Counter(
        name.rpartition("/")[2] for name in files()
        if name.rpartition("/")[0] not in packages and not name.endswith("conftest.py")
    )  # fmt: skip
    assert {name: count for name, count in names.items() if count > 1} == {}


def test_no_folder_has_too_many_files_but_those_that_are_known() -> None:
    sizes = Counter(name.rpartition("/")[0] for name in files())
    assert {folder for folder, size in sizes.items() if size > MOST_FILES} == FULLER


def test_no_file_is_too_long_but_those_that_are_known() -> None:
    assert {
        name for name, path in files().items() if len(path.read_text(encoding="utf-8").splitlines()) > MOST_LINES
    } == LONGER
