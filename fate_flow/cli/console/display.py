"""Print results: JSON on stdout as the genuine client prints it, messages on stderr, tables for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shutil import get_terminal_size
from typing import Any, NoReturn

import click

from fate_flow.cli.console.reply import ServerReply

_INDENT = "  "
_USUAL_SIZE = os.terminal_size((80, 24))


def show(answer: ServerReply) -> None:
    """Print the server's answer; exit with code 1 if it refused."""
    if not answer.is_success:
        refuse(answer)
    print_json(answer.envelope)


def refuse(answer: ServerReply) -> NoReturn:
    """Print the server's refusal and exit with code 1."""
    print_json(answer.envelope)
    raise SystemExit(1)


def print_json(document: Mapping[str, Any]) -> None:
    click.echo(json.dumps(document, indent=4, ensure_ascii=False))
    click.echo("")


def tell(text: str) -> None:
    """Print a message on stderr; on a terminal, break its lines between words."""
    width = _columns_of_messages()
    for line in printable(text).split("\n"):
        for part in _paragraph(line, width):
            click.echo(part, err=True)


def printable(text: object) -> str:
    """Return the text with control characters replaced: it may come from another party."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in str(text))


def one_line(text: object) -> str:
    return printable(" ".join(str(text).split()))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print an indented table, on a terminal no wider than it. The last column has the long texts."""
    from fate_flow.cli.console.table_layout import lay_out

    cells = [["" if cell is None else one_line(cell) for cell in row] for row in rows]
    width = _columns()
    layout = lay_out(headers, cells, width and max(1, width - len(_INDENT)))
    for line in layout.head:
        click.echo(f"{_INDENT}{click.style(line, bold=True)}")
    for line in layout.body:
        click.echo(f"{_INDENT}{line}".rstrip())


def print_line(text: object) -> None:
    """Print one paragraph; on a terminal, break its lines between words."""
    for part in _paragraph(one_line(text), _columns()):
        click.echo(part)


def _paragraph(line: str, width: int | None) -> Iterator[str]:
    """Yield the lines of a paragraph for so many characters (None: no limit), all but the first one indented."""
    if width is None:
        yield line
        return
    from fate_flow.cli.console.table_layout import wrap

    first, *more = wrap(line, max(20, width - len(_INDENT)))
    yield first
    yield from (f"{_INDENT}{part}" for part in more)


def _columns() -> int | None:
    """Return the width of the terminal in characters; None if stdout is not a terminal."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _columns_of_messages() -> int | None:
    """Do the same for stderr, which may be a terminal while stdout is a pipe."""
    if not sys.stderr.isatty():
        return None
    try:
        seen = os.get_terminal_size(sys.stderr.fileno())
    except OSError:                  # a terminal that does not say its size
        seen = _USUAL_SIZE
    return get_terminal_size(seen).columns
