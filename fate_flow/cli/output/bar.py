"""A progress bar for uploads and downloads, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from fate_flow.cli.console.display import one_line
from fate_flow.cli.output.upload_body import nobody

_MOST_NAME = 24               # characters of the name; the rest of the line is for numbers


@contextmanager
def bar(name: str, size: int | None) -> Iterator[Callable[[int], object]]:
    """Show a progress bar; yield a function that takes the number of bytes just transferred.

    `size`: all bytes; None: unknown. The bar disappears at the end."""
    if not sys.stderr.isatty():
        yield nobody
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield nobody
        return
    label = TextColumn("{task.description}", markup=False)
    columns = (label, BarColumn(None), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(compact=True))
    shown = one_line(name)
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        task = progress.add_task(shown if len(shown) <= _MOST_NAME else f"{shown[: _MOST_NAME - 3]}...", total=size)
        yield lambda count: progress.advance(task, count)


class Counted:
    """A file that reports the number of bytes written to it."""

    def __init__(self, file: IO[bytes], on_written: Callable[[int], object]) -> None:
        self._file = file
        self._on_written = on_written

    def write(self, chunk: bytes) -> int:
        self._on_written(len(chunk))
        return self._file.write(chunk)
