"""What a module can do is looked up once for its class, with the same answer as that of typing."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from fate_flow.core.model.modules import DescribesArtifacts, KnowsLimits, OpensFiles
from tests.kit.modules import Module


@runtime_checkable
class _Limits(Protocol):
    """`KnowsLimits`, as typing looks it up."""

    @property
    def ignores_least_intersection(self) -> bool: ...


class _Silent:
    """A module that says nothing about itself."""


class _Strict:
    """A module that counts who looks at it."""

    looks = 0

    @property
    def ignores_least_intersection(self) -> bool:
        _Strict.looks += 1
        return False


def test_a_class_is_asked_once() -> None:
    one, other = _Strict(), _Strict()
    assert [isinstance(each, KnowsLimits) for each in (one, other, one)] == [True] * 3
    assert _Strict.looks == 1


def test_the_answer_is_that_of_typing() -> None:
    for one in (_Silent(), _Strict(), Module(), {}):
        for _ in range(2):
            assert isinstance(one, KnowsLimits) == isinstance(one, _Limits)


def test_a_class_has_an_answer_for_each_trait() -> None:
    assert isinstance(Module(), DescribesArtifacts) == hasattr(Module(), "stages")
    assert not isinstance(_Strict(), OpensFiles)
    assert isinstance(_Strict(), KnowsLimits)
