"""flow notify: what a person sends about the own notifications."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from tests.kit.cli.stub_server import Stub


@pytest.mark.parametrize(("arguments", "events"), [
    (("job_ended", "approval_needed"), ["job_ended", "approval_needed"]), (("--all",), None), (("--none",), []),
])  # fmt: skip
def test_a_choice(flow: Callable[..., Result], stub: Stub, arguments: tuple[str, ...], events: object) -> None:
    assert flow("notify", "choose", *arguments).exit_code == 0
    assert (stub.last.path, stub.last.json) == ("/v1/notification/choose", {"events": events})


@pytest.mark.parametrize("arguments", [(), ("--all", "--none"), ("job_ended", "--all"), ("test",)])
def test_no_choice_is_wrong_usage(flow: Callable[..., Result], stub: Stub, arguments: tuple[str, ...]) -> None:
    assert flow("notify", "choose", *arguments).exit_code == 2
    assert stub.asked == []


def test_what_is_shown(flow: Callable[..., Result], stub: Stub) -> None:
    assert flow("notify", "show").exit_code == 0
    assert stub.last.path == "/v1/notification/show"
