"""The layers of the package: imports point down only, and nothing imports in a circle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "fate_flow"
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "components": {"core"},
    "audit": {"core"},
    "engine": {"core", "components"},
    "store": {"core"},
    "federation": {"core"},
    "client_keys": {"core"},
    "settings_section": {"core"},
    "settings_security": {"core"},
    "settings_connectors": {"core", "settings_section"},
    "settings_limits": {"core", "settings_section"},
    "settings_logs": {"settings_section"},
    "settings_parties": {"core", "settings_section", "settings_security"},
    "settings_programs": {"core", "settings_parties", "settings_section"},
    "settings": {"core", "client_keys", "settings_connectors", "settings_limits", "settings_logs", "settings_parties"},
    "settings_reader": {
        "core", "client_keys", "settings", "settings_connectors", "settings_limits", "settings_logs",
        "settings_parties", "settings_programs", "settings_section", "settings_security",
    },
    "coordinator": {"core", "store", "audit"},
    "adapters": {"core", "store", "federation", "engine", "audit", "components", "coordinator", "settings"},
    "api": {
        "core", "store", "federation", "engine", "audit", "components", "coordinator", "settings", "settings_reader",
        "client_keys",
    },
    "crash_points": {"core", "store", "federation", "coordinator", "settings"},
    "log_keeper": {"core", "audit", "settings"},
    "runtime": {
        "core", "store", "federation", "engine", "audit", "components", "coordinator", "settings", "adapters", "api",
        "client_keys", "crash_points", "log_keeper",
    },
}  # fmt: skip
NOT_IN_CORE = {
    "flask", "peewee", "requests", "time", "datetime", "random", "secrets", "uuid", "logging", "os", "socket",
    "subprocess", "threading",
}  # fmt: skip


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """What a module imports when it is loaded; what only type checkers or single functions import does not count."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_point_down(name: str) -> None:
    layer = name.split(".")[1] if "." in name else ""
    if layer not in MAY_IMPORT:
        return
    used = {other.split(".")[1] for other in imports(modules()[name]) if other.startswith("fate_flow.")}
    assert used - {layer} <= MAY_IMPORT[layer], f"{name} imports {sorted(used - {layer} - MAY_IMPORT[layer])}"


@pytest.mark.parametrize("name", sorted(one for one in modules() if one.startswith("fate_flow.core")))
def test_the_core_does_no_input_or_output(name: str) -> None:
    assert not imports(modules()[name]) & NOT_IN_CORE


def test_there_is_no_import_cycle() -> None:
    known = modules()
    graph = {name: {other for other in imports(path) if other in known} - {name} for name, path in known.items()}
    TopologicalSorter(graph).prepare()


def test_one_module_opens_savepoints() -> None:
    """It knows what a deadlock leaves of a transaction; a savepoint of peewee's own hides that behind another error."""
    found = {name for name, path in modules().items() if "_database.savepoint(" in path.read_text(encoding="utf-8")}
    assert found == {"fate_flow.store.sql.unit"}
