"""Writing the file of `audit prove`."""

from __future__ import annotations

from pathlib import Path

from fate_flow.cli.console.display import tell
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.text.phrases import counted


def write_proof(output: Path, text: str, left: int, never: int) -> None:
    """Write the file, and say how many entries are not in it: those that will be signed, and those that never will.
    Raise BadRequest."""
    if left:
        some = counted(left, "entry is", "entries are")
        tell(f"{some} not signed yet, and not in the file: the server signs within a minute")
    if never:
        some = counted(never, "entry", "entries")
        tell(f"{some} of an earlier epoch cannot be proved: that log began anew before they were signed")
    write_file(output, text)


def write_file(output: Path, text: str) -> None:
    """Raises BadRequest."""
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"--output: {output} cannot be written: {error.strerror}") from error
    tell(f"written: {output}")
