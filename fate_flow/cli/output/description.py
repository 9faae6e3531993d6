"""Print the description of a component."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_table

Said = Mapping[str, Any]


def print_description(data: Said) -> None:
    """Print the answer of `component desc`."""
    said = data["component"]
    roles = ", ".join(said.get("roles") or ())
    click.echo(one_line(f"{data.get('module')}: {said.get('description') or 'no description'}; roles: {roles}"))
    print_table(("parameter", "type", "default", "what"), (
        (name, one.get("type"), _default(one), one.get("description"))
        for name, one in (said.get("parameters") or {}).items()
    ))  # fmt: skip
    puts = [*_puts("input", said.get("input_artifacts")), *_puts("output", said.get("output_artifacts"))]
    print_table(("", "kind", "key", "types", "roles", "stages"), puts)


def _default(one: Said) -> str:
    if not one.get("optional"):
        return "needed"
    return json.dumps(one["default"]) if one.get("default") is not None else ""


def _puts(side: str, sections: Said | None) -> Iterator[tuple[object, ...]]:
    for section, keys in (sections or {}).items():
        for key, one in keys.items():
            name = f"{key}{' ...' if one.get('is_multi') else ''}{' (optional)' if one.get('optional') else ''}"
            listed = (", ".join(one.get(each) or ()) for each in ("types", "roles", "stages"))
            yield (side, section, name, *listed)
