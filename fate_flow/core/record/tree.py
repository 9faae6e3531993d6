"""The Merkle tree of RFC 6962: hashes of leaves and nodes, the right edge of a growing tree, and proofs.

A tree grows by its *right edge*: the roots of the complete subtrees that it consists of, the largest first. That is at
most one hash for each bit of its size, and enough to add leaves. A proof needs the hashes of some complete subtrees,
which its caller looks up or computes: `Subtree` names one by its first leaf and its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()
MOST_HASHES = 63            # in a proof
MOST_SIZE = 2**63 - 1


def leaf_hash(content: bytes) -> bytes:
    return sha256(b"\x00" + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True)
class Edge:
    """A tree by its size and the roots of its complete subtrees, the largest first."""

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def with_leaves(self, leaves: Iterable[bytes]) -> Edge:
        """Return the tree with these leaf hashes added at its end."""
        size, hashes = self.size, list(self.hashes)
        for leaf in leaves:
            hashes.append(leaf)
            size += 1
            for _ in range((size & -size).bit_length() - 1):
                right = hashes.pop()
                hashes[-1] = node_hash(hashes[-1], right)
        return Edge(size, tuple(hashes))

    @property
    def root(self) -> bytes:
        if not self.hashes:
            return EMPTY_ROOT
        found = self.hashes[-1]
        for one in reversed(self.hashes[:-1]):
            found = node_hash(one, found)
        return found

    @property
    def is_whole(self) -> bool:
        """Whether there are as many hashes as a tree of this size has complete subtrees."""
        return self.size.bit_count() == len(self.hashes) and all(len(one) == HASH_BYTES for one in self.hashes)


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root of the tree with these leaf hashes."""
    return Edge().with_leaves(leaves).root


@dataclass(frozen=True)
class Subtree:
    """The leaves from `first` to before `end`. Those of a proof are complete, or reach to the end of the tree."""

    first: int
    end: int


HashOf = Callable[[Subtree], bytes]
"""Returns the root of these leaves as a tree of their own."""


def hash_by(leaves: Sequence[bytes]) -> HashOf:
    """Return what computes roots from all leaf hashes of a tree."""
    return lambda subtree: root_of(leaves[subtree.first : subtree.end])


def inclusion_proof(index: int, size: int, hash_of: HashOf) -> tuple[bytes, ...]:
    """Return the proof that the tree of this size has the leaf at this index. Raises ValueError."""
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} has no leaf {index}")
    return tuple(hash_of(one) for one in _inclusion_path(index, 0, size))


def _inclusion_path(index: int, first: int, end: int) -> list[Subtree]:
    path: list[Subtree] = []
    while end - first > 1:
        middle = first + _largest_power_below(end - first)
        if index < middle:
            path.append(Subtree(middle, end))
            end = middle
        else:
            path.append(Subtree(first, middle))
            first = middle
    return path[::-1]


def consistency_proof(old: int, size: int, hash_of: HashOf) -> tuple[bytes, ...]:
    """Return the proof that the tree of size `old` is the beginning of the tree of size `size`. Raises ValueError."""
    if not 0 <= old <= size:
        raise ValueError(f"a tree of {old} is not the beginning of one of {size}")
    if old in (0, size):
        return ()
    path: list[Subtree] = []
    first, end, is_old_root = 0, size, True
    while end != old:
        middle = first + _largest_power_below(end - first)
        if old <= middle:
            path.append(Subtree(middle, end))
            end = middle
        else:
            path.append(Subtree(first, middle))
            first, is_old_root = middle, False
    if not is_old_root:
        path.append(Subtree(first, end))
    return tuple(hash_of(one) for one in reversed(path))


def consistency_from_edge(old: Edge, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the proof that the old tree is the beginning of the one with these leaf hashes added. Nothing of the old
    tree is needed but its edge: what a proof has of the old tree are complete subtrees of it."""
    known: dict[Subtree, bytes] = {}
    end = 0
    for one, bit in zip(old.hashes, _bits(old.size), strict=True):
        known[Subtree(end, end + bit)] = one
        end += bit

    def hash_of(subtree: Subtree) -> bytes:
        return known.get(subtree) or root_of(leaves[subtree.first - old.size : subtree.end - old.size])

    return consistency_proof(old.size, old.size + len(leaves), hash_of)


def _bits(size: int) -> list[int]:
    """Return the sizes of the complete subtrees of a tree, the largest first."""
    return [1 << place for place in reversed(range(size.bit_length())) if size >> place & 1]


def _largest_power_below(count: int) -> int:
    """Return the largest power of two that is smaller than this count, which is above 1."""
    return 1 << (count - 1).bit_length() - 1


def root_by_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes | None:
    """Return the root that the proof leads to from this leaf hash; None if the proof has another form."""
    if not 0 <= index < size or len(proof) > MOST_HASHES or any(len(one) != HASH_BYTES for one in proof):
        return None
    node, last, found = index, size - 1, leaf
    for one in proof:
        if last == 0:
            return None
        if node & 1 or node == last:
            found = node_hash(one, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, one)
        node, last = node >> 1, last >> 1
    return found if last == 0 else None


def includes(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether the proof shows that the tree with this root has this leaf hash at this index."""
    return root_by_inclusion(leaf, index, size, proof) == root


def is_consistent(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether the proof shows that the old tree is the beginning of the new one."""
    if not 0 <= old <= size or len(proof) > MOST_HASHES or any(len(one) != HASH_BYTES for one in proof):
        return False
    if old == size:
        return not proof and old_root == root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    hashes = list(proof) if old & (old - 1) else [old_root, *proof]
    if not hashes:
        return False
    node, last = old - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    found_old = found_new = hashes[0]
    for one in hashes[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            found_old, found_new = node_hash(one, found_old), node_hash(one, found_new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found_new = node_hash(found_new, one)
        node, last = node >> 1, last >> 1
    return last == 0 and found_old == old_root and found_new == root
