"""Six words for a digest, which two operators compare by telephone: 66 bits, in words that are hard to confuse.

`words.txt` has 2048 English words; the first four letters of each are its own (docs/reference/origins.md).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_COUNT = 6
_BITS = 11                   # of the number of a word among 2048


def phrase_of(digest: bytes) -> str:
    """Return the words for the first 66 bits of a digest, with spaces between them."""
    number = int.from_bytes(digest, "big") >> (8 * len(digest) - _COUNT * _BITS)
    places = [number >> (_BITS * place) & (2**_BITS - 1) for place in reversed(range(_COUNT))]
    return " ".join(_listed()[place] for place in places)


@cache
def _listed() -> tuple[str, ...]:
    lines = files("fate_flow.peers.spoken").joinpath("words.txt").read_text(encoding="ascii").splitlines()
    found = tuple(line for line in lines if not line.startswith("#"))       # its licence
    assert len(set(found)) == 2**_BITS, "words.txt was changed"
    return found
