"""The core imports nothing that could touch the world."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fate_flow.core

MODULES = sorted(Path(fate_flow.core.__file__).parent.glob("*.py"))
ALLOWED = {
    "__future__", "base64", "binascii", "collections", "dataclasses", "difflib", "enum", "functools", "graphlib",
    "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "types", "typing",
}
# prints the diagrams when it is run, and only then; numbers and their names
ALSO_ALLOWED = {"diagram.py": {"sys"}, "exit_codes.py": {"signal"}, "os_errors.py": {"errno"}}


def imports_of(path):
    """The modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_core_knows_only_itself_and_values(path):
    allowed = ALLOWED | ALSO_ALLOWED.get(path.name, set())
    foreign = [
        name for name in imports_of(path)
        if name.partition(".")[0] not in allowed and not name.startswith("fate_flow.core")
    ]
    assert foreign == []
