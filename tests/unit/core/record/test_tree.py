"""The tree of RFC 6962: published roots, the definitions of the RFC in their recursive form, and proofs that are
changed."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fate_flow.core.record.tree import (
    EMPTY_ROOT,
    Edge,
    consistency_from_edge,
    consistency_proof,
    hash_by,
    includes,
    inclusion_proof,
    is_consistent,
    leaf_hash,
    node_hash,
    root_of,
)

PUBLISHED = [
    ("", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
    ("00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
    ("10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
    ("2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
    ("3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
    ("40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
    ("5051525354555657", "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
    ("606162636465666768696a6b6c6d6e6f", "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
]
"""The leaves with which implementations of RFC 6962 are tested, and the root after each."""

SIZES = st.integers(1, 130)


def leaves_of(count: int) -> list[bytes]:
    return [leaf_hash(str(one).encode()) for one in range(count)]


def power_below(count: int) -> int:
    power = 1
    while power * 2 < count:
        power *= 2
    return power


def mth(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, over leaf hashes."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = power_below(len(leaves))
    return node_hash(mth(leaves[:k]), mth(leaves[k:]))


def path(m: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of section 2.1.1."""
    if len(leaves) == 1:
        return []
    k = power_below(len(leaves))
    if m < k:
        return [*path(m, leaves[:k]), mth(leaves[k:])]
    return [*path(m - k, leaves[k:]), mth(leaves[:k])]


def subproof(m: int, leaves: list[bytes], b: bool) -> list[bytes]:
    """SUBPROOF of section 2.1.2."""
    if m == len(leaves):
        return [] if b else [mth(leaves)]
    k = power_below(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], b), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], False), mth(leaves[:k])]


def test_the_published_roots() -> None:
    edge = Edge()
    assert edge.root == EMPTY_ROOT
    for content, root in PUBLISHED:
        edge = edge.with_leaves([leaf_hash(bytes.fromhex(content))])
        assert edge.root.hex() == root


@given(SIZES, st.integers(0, 130))
def test_a_tree_that_grew_in_parts_has_the_root_of_the_rfc(size: int, cut: int) -> None:
    leaves = leaves_of(size)
    grown = Edge().with_leaves(leaves[:cut]).with_leaves(leaves[cut:])

    assert grown.root == mth(leaves) == root_of(leaves)
    assert grown.is_whole


@given(SIZES, st.data())
def test_a_proof_of_a_leaf_is_that_of_the_rfc_and_holds(size: int, data: st.DataObject) -> None:
    leaves, index = leaves_of(size), data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(index, size, hash_by(leaves))

    assert list(proof) == path(index, leaves)
    assert includes(leaves[index], index, size, proof, mth(leaves))


@given(SIZES, st.data())
def test_a_proof_of_growth_is_that_of_the_rfc_and_holds(size: int, data: st.DataObject) -> None:
    leaves, old = leaves_of(size), data.draw(st.integers(1, size))
    proof = consistency_proof(old, size, hash_by(leaves))

    assert list(proof) == subproof(old, leaves, True)
    assert is_consistent(old, mth(leaves[:old]), size, mth(leaves), proof)


@given(SIZES, st.data())
def test_a_changed_proof_of_a_leaf_does_not_hold(size: int, data: st.DataObject) -> None:
    leaves, index = leaves_of(size), data.draw(st.integers(0, size - 1))
    root, proof = mth(leaves), list(inclusion_proof(index, size, hash_by(leaves)))
    at = data.draw(st.integers(0, len(proof)))
    change = data.draw(st.sampled_from(["drop", "insert", "replace", "leaf", "index", "shorten"]))
    leaf, other = leaves[index], index
    if change == "drop" and at < len(proof):
        del proof[at]
    elif change == "insert":
        proof.insert(at, leaf_hash(b"another"))
    elif change == "replace" and at < len(proof):
        proof[at] = leaf_hash(b"another")
    elif change == "leaf":
        leaf = leaf_hash(b"another")
    elif change == "index":
        other = data.draw(st.integers(-1, size + 1).filter(lambda one: one != index))
    elif at < len(proof):
        proof[at] = proof[at][:-1]
    else:
        assume(False)

    assert not includes(leaf, other, size, proof, root)


@given(st.integers(2, 130), st.data())
def test_a_changed_past_is_not_consistent(size: int, data: st.DataObject) -> None:
    leaves, old = leaves_of(size), data.draw(st.integers(1, size - 1))
    changed = list(leaves)
    changed[data.draw(st.integers(0, old - 1))] = leaf_hash(b"another")
    honest = consistency_proof(old, size, hash_by(leaves))
    forged = consistency_proof(old, size, hash_by(changed))

    for proof in (honest, forged, honest[1:], forged[:-1], ()):
        assert not is_consistent(old, mth(leaves[:old]), size, mth(changed), proof)


@given(SIZES, st.data())
def test_a_proof_of_growth_needs_only_the_edge_of_the_old_tree(size: int, data: st.DataObject) -> None:
    leaves, old = leaves_of(size), data.draw(st.integers(1, size))
    edge = Edge().with_leaves(leaves[:old])

    assert consistency_from_edge(edge, leaves[old:]) == consistency_proof(old, size, hash_by(leaves))


def test_the_beginnings_of_an_empty_tree_and_of_the_same_tree_need_no_proof() -> None:
    leaves = leaves_of(5)
    root = mth(leaves)

    assert is_consistent(0, EMPTY_ROOT, 5, root, ())
    assert is_consistent(5, root, 5, root, ())
    assert not is_consistent(0, root, 5, root, ())
    assert not is_consistent(5, root, 5, EMPTY_ROOT, ())
    assert not is_consistent(5, root, 5, root, (root,))
    assert not is_consistent(6, root, 5, root, ())


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_a_leaf_that_is_not_there_has_no_proof(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="has no leaf"):
        inclusion_proof(index, size, hash_by(leaves_of(size)))


@given(SIZES)
def test_a_right_edge_that_was_cut_is_noticed(size: int) -> None:
    edge = Edge().with_leaves(leaves_of(size))

    assert not Edge(edge.size, edge.hashes[:-1]).is_whole
    assert not Edge(edge.size, (*edge.hashes[:-1], edge.hashes[-1][:-1])).is_whole
