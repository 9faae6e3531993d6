"""Printing the entries of the record as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn

import click

from fate_flow.cli.audit.record_times import time_of
from fate_flow.cli.console.display import one_line, tell
from fate_flow.core.record.sentences import place_of, sentence_of
from fate_flow.core.record.shown import Followed, Position, ShownEntry

LOOK_SECONDS = 0.5

Look = Callable[[Position | None], Followed]
"""Returns what was sealed after this position; for None, nothing, and the position at which all ends now."""


def print_followed(look: Look, form: str, pause: Callable[[float], object]) -> NoReturn:
    """Print what is sealed from now on, one line for each entry. `form`: one of FOLLOWED."""
    page = look(None)
    tell("following the record; Ctrl-C ends")
    while True:
        page = look(page.position)
        for one in page.entries:
            click.echo(_line(one, form))
        if not page.has_more:
            pause(LOOK_SECONDS)


def _line(one: ShownEntry, form: str) -> str:
    if form == "lines":
        return json.dumps(one.as_document(), ensure_ascii=False)
    return f"{time_of(one.at)}  {one_line(place_of(one)):<18}  {one_line(sentence_of(one))}"
