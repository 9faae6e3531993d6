"""The walls of the package: folders import in one direction, and none of them, no file and no class is too large."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.kit.syntax import statements

pytestmark = pytest.mark.usefixtures("no_gc")

PACKAGE = Path(__file__).parents[2] / "fate_flow"
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "jobspec": {"core"},
    "records": {"core"},
    "peers": {"core"},
    "gateway": {"core", "peers"},
    "relay": {"core"},
    "streams": {"core", "peers", "gateway", "relay"},
    "components": {"core", "jobspec"},
    "engines": {"core", "components"},
    "store": {"core", "jobspec"},
    "settings": {"core", "jobspec"},
    "services": {"core", "jobspec", "store", "records"},
    "api": {
        "core", "jobspec", "records", "peers", "relay", "components", "engines", "store", "settings", "services",
    },
    "web": {"core", "store", "settings", "services", "api"},
    "server": {
        "core", "jobspec", "records", "peers", "gateway", "relay", "streams", "components", "engines", "store",
        "settings", "services", "api", "web",
    },
    "cli": {"core", "jobspec", "peers", "records", "relay", "engines", "store", "settings", "services", "server"},
}  # fmt: skip
"""By folder of the package, the others that it knows."""

API_SEES = ("fate_flow.store.contract", "fate_flow.store.values", "fate_flow.store.views")
"""Of the store, what the API knows: values and view rows, but no row of the database."""

PURE = ("fate_flow.core", "fate_flow.jobspec")
PURE_MAY_IMPORT = {
    "__future__", "base64", "binascii", "collections", "collections.abc", "contextlib", "dataclasses", "decimal",
    "difflib", "enum", "errno", "functools", "graphlib", "hashlib", "heapq", "hmac", "itertools", "json", "math",
    "operator", "posixpath", "re", "signal", "string", "struct", "sys", "typing", "urllib.parse",
}  # fmt: skip
"""Of the standard library, what neither waits nor looks at anything outside."""
DOCUMENTS_MAY_IMPORT = {"jsonschema_rs"}       # with `offline`

MOST_FILES = 20
MOST_LINES = 500
MOST_METHODS = 25


@pytest.fixture(scope="module", autouse=True)
def _no_tree_stays() -> Iterator[None]:
    """For the collector to look at after each test."""
    yield
    tree_of.cache_clear()


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def names_in(nodes: Iterator[ast.AST] | list[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@cache
def imports(name: str) -> frozenset[str]:
    """All that a module imports, also within functions and for type checkers alone."""
    return frozenset(names_in(statements(tree_of(name))))


def folder_of(name: str) -> str:
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]


def test_imports_point_down() -> None:
    found = {}
    for name in modules():
        if "." in name:
            layer = name.split(".")[1]
            used = {other.split(".")[1] for other in imports(name) if other.startswith("fate_flow.")}
            unknown = {one for one in used if f"fate_flow.{one}" not in modules()}    # names of the package itself
            found[name] = sorted(used - unknown - {layer} - MAY_IMPORT[layer])
    assert {name: others for name, others in found.items() if others} == {}


def test_no_row_of_the_database_is_an_answer() -> None:
    found = {}
    for name in (one for one in modules() if one.startswith("fate_flow.api.")):
        used = {one for one in imports(name) if one.startswith("fate_flow.store.") and one in modules()}
        rows = {one for one in used if not one.startswith(API_SEES)}
        found[name] = sorted(rows | {one for one in imports(name) if one.split(".")[0] == "peewee"})
    assert {name: others for name, others in found.items() if others} == {}


def test_neither_the_core_nor_the_documents_do_input_or_output() -> None:
    found = {}
    for name in (one for one in modules() if one.startswith(PURE)):
        allowed = PURE_MAY_IMPORT | (DOCUMENTS_MAY_IMPORT if name.startswith("fate_flow.jobspec") else set())
        used = {one for one in imports(name) if not one.startswith(PURE)}
        found[name] = sorted(one for one in used if one not in allowed and one.rpartition(".")[0] not in allowed)
    assert {name: others for name, others in found.items() if others} == {}


def test_there_is_no_circle_of_modules() -> None:
    """What is imported within a function is imported late, and may come from above."""
    graph = {
        name: {other for other in names_in(tree_of(name).body) if other in modules()} - {name} for name in modules()
    }
    TopologicalSorter(graph).prepare()


def test_there_is_no_circle_of_folders() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for name in modules():
        graph[folder_of(name)] |= {folder_of(other) for other in imports(name) if other in modules()}
    graph.pop("fate_flow", None)
    TopologicalSorter({one: others - {one, "fate_flow"} for one, others in graph.items()}).prepare()


def test_no_folder_has_too_many_files() -> None:
    folders = {path.parent for path in modules().values()}
    sizes = {folder.relative_to(PACKAGE.parent).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: size for name, size in sizes.items() if size > MOST_FILES} == {}


def test_no_file_is_too_long() -> None:
    sizes = {
        path.relative_to(PACKAGE.parent).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules().values()
    }
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}


def test_no_class_is_too_wide() -> None:
    sizes = {
        f"{name}.{node.name}": sum(
            isinstance(one, ast.FunctionDef) and not one.name.startswith("_") for one in node.body
        )
        for name in modules() for node in statements(tree_of(name)) if isinstance(node, ast.ClassDef)
    }  # fmt: skip
    assert {name: size for name, size in sizes.items() if size > MOST_METHODS} == {}


def test_one_module_opens_savepoints() -> None:
    """It knows what a deadlock leaves of a transaction; a savepoint of peewee's own hides that behind another error."""
    opens = re.compile(r'_database\.savepoint\(|"SAVEPOINT \{')
    found = {name for name, path in modules().items() if opens.search(path.read_text(encoding="utf-8"))}
    assert found == {"fate_flow.store.sql.unit"}
