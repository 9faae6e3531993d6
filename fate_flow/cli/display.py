"""What is printed: JSON on stdout as the genuine client prints it, talk on stderr, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import click

from fate_flow.cli.answer import Answer

_WIDE = 10_000                # a table that goes into a pipe is not folded
_INDENT = "  "


def show(answer: Answer) -> None:
    """Prints what the server said; ends the command with exit code 1 when it refused."""
    if not answer.is_success:
        refuse(answer)
    print_json(answer.envelope)


def refuse(answer: Answer) -> NoReturn:
    """Prints what the server said instead of what was asked for, and ends the command with exit code 1."""
    print_json(answer.envelope)
    raise SystemExit(1)


def print_json(document: Mapping[str, Any]) -> None:
    click.echo(json.dumps(document, indent=4, ensure_ascii=False))
    click.echo("")


def tell(text: str) -> None:
    click.echo(printable(text), err=True)


def printable(text: object) -> str:
    """The text without what would move a terminal's cursor: it may come from another party."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in str(text))


def one_line(text: object) -> str:
    return printable(" ".join(str(text).split()))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns side by side, an indent before them; folded only where a terminal is too narrow, the first one last."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    console.width -= len(_INDENT)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for place, header in enumerate(headers):
        table.add_column(header, no_wrap=place == 0)
    for row in rows:
        cells = ("" if cell is None else one_line(cell) for cell in row)
        table.add_row(*(Text(cell, overflow="fold", no_wrap=False) for cell in cells))
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(f"{_INDENT}{line.rstrip()}")
