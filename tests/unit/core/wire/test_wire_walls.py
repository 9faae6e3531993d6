"""One place writes and reads what servers of different parties send: nobody else looks into a body or an answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[4] / "fate_flow"
SENDERS = [
    path.relative_to(PACKAGE).as_posix()
    for folder in ("core/planning", "services", "peers", "api/between_parties")
    for path in sorted((PACKAGE / folder).rglob("*.py"))
]
SENT = {"body", "data"}


def looks_into(tree: ast.Module) -> Iterator[str]:
    """Yield where fields of a body or of the data of an answer are read by their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            value = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.Name):
            value = node.value
        else:
            continue
        name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
        if name in SENT:
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("name", SENDERS)
def test_nobody_else_reads_fields_of_a_body_or_an_answer(name: str) -> None:
    assert list(looks_into(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))) == []


def test_a_look_into_a_body_is_found() -> None:
    source = "a.body.get('x')\nbody['x']\nanswer.data['x']\nbody[:9]\nof(body)"
    assert len(list(looks_into(ast.parse(source)))) == 3
