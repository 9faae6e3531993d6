"""Requests that the genuine server of FATE Flow 2 refuses have the same answers here, word for word."""

from __future__ import annotations

import pytest

from tests.kit.api.client_world import World
from tests.kit.fate_2.answers import REFUSED, recorded


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refusal_is_that_of_the_genuine_server(world: World, name: str) -> None:
    method, path, sent = REFUSED[name]
    where = {"query_string": sent} if method == "GET" else {"json": sent}
    response = world.client.open(f"/v2/{path}", method=method, **where)
    assert (response.status_code, response.json) == (200, recorded()["refused"][name])


def test_there_is_an_answer_to_each_request() -> None:
    assert recorded()["refused"].keys() == REFUSED.keys()
