"""What is recorded about a job as a sequence diagram: messages as arrows, all else as notes at this party."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from fate_flow.cli.audit.record_times import time_of
from fate_flow.core.record.shown import ShownEntry
from fate_flow.core.record.steps import Step, parties_of, steps_of

_WIDTH, _MARGIN, _ROW, _TOP = 340, 180, 30, 64     # pixels: between parties, beside the first one, of a step, above
_LETTERS = 90                                      # of one step; the whole text is its title


def as_mermaid(entries: Sequence[ShownEntry], own: str) -> Iterator[str]:
    """Yield the lines of a diagram in Mermaid."""
    yield "sequenceDiagram"
    yield f"    participant P{own} as party {own}"
    for one in steps_of(entries, own):
        text = _plain(_timed(one))
        if one.is_note:
            yield f"    Note over P{one.source}: {text}"
        else:
            yield f"    P{one.source}{'-->>' if one.is_answer else '->>'}P{one.target}: {text}"


def as_svg(entries: Sequence[ShownEntry], own: str) -> Iterator[str]:
    """Yield the lines of a diagram in SVG, which loads nothing and runs nothing."""
    steps = list(steps_of(entries, own))
    parties = parties_of(steps, own)
    place = {name: _MARGIN + number * _WIDTH for number, name in enumerate(parties)}
    width, height = 2 * _MARGIN + (len(parties) - 1) * _WIDTH + _WIDTH, _TOP + len(steps) * _ROW + 20
    size = f'width="{width}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    yield f"<title>What party {escape(own)} has recorded</title>"
    yield '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="8" refY="4" orient="auto">'
    yield '<path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    yield '<rect width="100%" height="100%" fill="white"/>'
    for name in parties:
        x = place[name]
        yield f'<line x1="{x}" y1="40" x2="{x}" y2="{height - 10}" stroke="#999"/>'
        yield f'<text x="{x}" y="28" text-anchor="middle" font-weight="bold">party {escape(name)}</text>'
    for number, one in enumerate(steps):
        yield from _drawn(one, place, _TOP + number * _ROW)
    yield "</svg>"


def _drawn(one: Step, place: dict[str, int], y: int) -> Iterator[str]:
    begin, end = place[one.source], place[one.target]
    text = _timed(one)
    short = text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
    yield f"<g><title>{escape(text)}</title>"
    if one.is_note:
        yield f'<circle cx="{begin}" cy="{y}" r="4" fill="#555"/>'
        yield f'<text x="{begin + 10}" y="{y + 4}">{escape(short)}</text></g>'
        return
    dashes = ' stroke-dasharray="5 3"' if one.is_answer else ""
    yield f'<line x1="{begin}" y1="{y}" x2="{end}" y2="{y}" stroke="black" marker-end="url(#tip)"{dashes}/>'
    yield f'<text x="{(begin + end) // 2}" y="{y - 5}" text-anchor="middle">{escape(short)}</text></g>'


def _timed(one: Step) -> str:
    there, of = one.entry.there, one.entry.of
    at, word = time_of(one.entry.at)[11:], f" (word of party {of} alone)" if of else ""
    if there is not None:
        word = f" (there {time_of(there.at)[11:]}{'' if there.is_agreed else ', with another content'})"
    return f"{at} {one.text}{word}"


def _plain(text: str) -> str:
    """Without what Mermaid reads as syntax."""
    return "".join(" " if letter in ";#\n" or not letter.isprintable() else letter for letter in text)
