"""A wall: store/contract/changes.py builds every change of a status, and asks the table of moves before it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fate_flow

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("no_gc")]

PACKAGE = Path(fate_flow.__file__).parent
CHANGES = "store/contract/changes.py"
FIELDS = {"status", "party_status"}
COLUMNS = {f"f_{field}" for field in FIELDS}
STATEMENTS = {"update", "insert", "insert_many", "replace", "replace_many", "delete", "create", "save"}


FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.fixture(scope="module", autouse=True)
def _no_tree_stays() -> Iterator[None]:
    yield
    trees.cache_clear()


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def functions_in(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def name_of(called: ast.expr) -> str:
    """The last part of the name of what is called."""
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def is_status(node: ast.AST | None) -> bool:
    """Whether this names one: "status", "f_status", `JobRow.f_status`."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value in FIELDS | COLUMNS
    return isinstance(node, ast.Attribute) and node.attr in COLUMNS


def is_call_with_status(node: ast.AST) -> bool:
    """`changed(row, status=new)`, `JobRow.update(f_status=text)`; a class that is called makes a new value."""
    if not isinstance(node, ast.Call) or name_of(node.func).lstrip("_")[:1].isupper():
        return False
    return any(one.arg in FIELDS | COLUMNS for one in node.keywords)


def is_assignment(node: ast.AST) -> bool:
    """`change["status"] = new`, `row.f_status = text`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store) and is_status(node.slice)
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in FIELDS | COLUMNS


def writes(tree: ast.AST) -> Iterator[int]:
    """The lines of a module that give a status to a row or to a change of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from (key.lineno for key in node.keys if key is not None and is_status(key))
        elif is_assignment(node) or is_call_with_status(node):
            yield node.lineno


def calls(tree: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Call) and name_of(node.func) == name for node in ast.walk(tree))


@pytest.mark.parametrize("text", [
    "values = {SeatRow.f_status: new.value}",
    "values = {'f_status': new.value}",
    "change = {'party_status': new}",
    "change['status'] = new",
    "row.f_status = new.value",
    "changed(row, status=new)",
    "replace(row, party_status=new)",
    "self._change(row, status=new)",
    "JobRow.update(f_status=new.value)",
    "change.update(status=new)",
])  # fmt: skip
def test_a_write_is_seen(text: str) -> None:
    assert len(list(writes(ast.parse(text)))) == 1


@pytest.mark.parametrize("text", [
    "Job(key=key, status=JobStatus(status))",
    "where = (JobRow.f_status == old.value)",
    "Table(journal, status=lambda job: job.status)",
    "change = {'message': status}",
])  # fmt: skip
def test_a_read_and_a_new_value_are_none(text: str) -> None:
    assert list(writes(ast.parse(text))) == []


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("store/") and path != CHANGES])
def test_no_other_module_of_the_store_writes_a_status(path: str) -> None:
    """The first status of a new row comes with all its other fields."""
    assert list(writes(trees()[path])) == []


def test_nobody_outside_the_store_writes_rows() -> None:
    found = {
        (path, node.lineno)
        for path, tree in trees().items() if not path.startswith("store/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in STATEMENTS and name_of(node.value).endswith("Row")
    }  # fmt: skip
    assert found == set()


def test_all_that_changes_a_status_asks_the_table() -> None:
    builders = {one.name: one for one in functions_in(trees()[CHANGES]) if list(writes(one))}
    assert len(builders) >= 8
    assert [name for name, one in builders.items() if not calls(one, "check_move")] == []


def test_nobody_else_asks_the_table_before_a_move() -> None:
    assert [path for path, tree in trees().items() if calls(tree, "check_move")] == [CHANGES]
