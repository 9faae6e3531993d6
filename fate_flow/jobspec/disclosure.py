"""Least disclosure: each party gets the common part of a document and the blocks of its own seats. Of other blocks it
gets commitments with salts, so that all parties are bound to one digest (docs/explanation/authority.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fate_flow.core.access.authority import content_digest
from fate_flow.core.model.document import Disclosure, JobDocument
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.text.blocks import Block, with_values

_COMMITMENT = "fate_flow: commitment to a block"
_DIGEST = "fate_flow: document with commitments"
_HEX = re.compile(r"[0-9a-f]{64}")


def commitment(salt: str, path: str, private: Mapping[str, Any]) -> str:
    return content_digest([_COMMITMENT, salt, path, private])


def disclosure_of(
    blocks: Iterable[Block], fresh: Callable[[], str], whole: Collection[str],
    earlier: Iterable[Block] = (), salts: Mapping[str, str] | None = None,
) -> Disclosure:  # fmt: skip
    """Return the disclosure of a whole document. `fresh`: makes a new salt; `whole`: see `Disclosure`.

    `earlier`, `salts`: blocks and salts of the document before a change. A block that has not changed keeps its salt,
    so that its commitment does not show a change where there is none."""
    kept = {block.name: block.private for block in earlier}
    known = salts or {}
    return Disclosure(
        {
            block.name: known[block.name] if kept.get(block.name) == block.private and block.name in known else fresh()
            for block in blocks if block.private
        },
        whole=tuple(sorted(whole)),
    )  # fmt: skip


def bound_with_commitments(
    document: JobDocument, blocks: Sequence[Block], bound: Callable[[JobDocument], object]
) -> object:
    """Return the value whose digest a job with this disclosure is bound to: the same at all parties, whatever they have
    of the document.

    Raises BadRequest if the disclosure does not fit the document."""
    assert document.disclosure is not None, "only such a document has commitments"
    return [_DIGEST, bound(_public(document, blocks)), dict(_commitments(document.disclosure, blocks))]


def _commitments(given: Disclosure, blocks: Sequence[Block]) -> Iterator[tuple[str, str]]:
    """Yield the paths of all private parts with the commitments to them. Raises BadRequest as described above."""
    _check_values(given, {block.name for block in blocks})
    for block in blocks:
        name, salt = block.name, given.salts.get(block.name)
        if bool(block.private) != (salt is not None):
            what = "a salt, but nothing private" if salt is not None else "a private part, but no salt"
            raise BadRequest(f"disclosure.salts: {shown(name)} of the document has {what}")
        if salt is not None and name in given.commitments:
            raise BadRequest(f"disclosure.commitments: the private part of {shown(name)} is in the document")
        if salt is not None:
            yield name, commitment(salt, name, block.private)
        elif name in given.commitments:
            yield name, given.commitments[name]


def _check_values(given: Disclosure, names: Collection[str]) -> None:
    for key, values in (("salts", given.salts), ("commitments", given.commitments)):
        for name, value in values.items():
            if name not in names:
                raise BadRequest(f"disclosure.{key}: the document has no block {shown(name)}")
            if not isinstance(value, str) or not _HEX.fullmatch(value):
                raise BadRequest(f"disclosure.{key}: {shown(value)} for {shown(name)} is not 64 lower case hex digits")


def _public(document: JobDocument, blocks: Iterable[Block]) -> JobDocument:
    """Return the document without private parts."""
    return replace(document, body=with_values(document.body, {block.path: block.public for block in blocks}))


def without_blocks_of_others(document: JobDocument, blocks: Sequence[Block], party_id: str) -> JobDocument:
    """Return what a party gets of a whole document: blocks of other seats have their public part alone, and a
    commitment if the document has salts."""
    theirs = {block.name for block in blocks if is_for(block, party_id)}
    found, known = _public(document, [block for block in blocks if block.name not in theirs]), document.disclosure
    if known is None:
        return found
    salts = {name: salt for name, salt in known.salts.items() if name in theirs}
    hidden = {name: value for name, value in _commitments(known, blocks) if name not in theirs}
    return replace(found, disclosure=Disclosure(salts, hidden))


def withheld_seats(document: JobDocument, blocks: Iterable[Block]) -> frozenset[Party]:
    """Return the seats of which some private part is not in the document."""
    hidden = document.disclosure.commitments if document.disclosure is not None else {}
    return frozenset(seat for block in blocks if block.name in hidden for seat in block.seats)


def texts_withheld(document: JobDocument, blocks: Iterable[Block], party_id: str) -> frozenset[str]:
    """Return the texts that occur only in private parts that a party does not get."""
    hidden = [block for block in blocks if not is_for(block, party_id)]
    got = _public(document, hidden)
    known = frozenset((*_texts([got.body, got.defaults]), *_keys([got.body])))
    return frozenset(_texts([block.private for block in hidden])) - known


def is_for(block: Block, party_id: str) -> bool:
    return any(seat.party_id == party_id for seat in block.seats)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inside in _inside(value):
        yield from _texts(inside)


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
    for inside in _inside(value):
        yield from _keys(inside)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
