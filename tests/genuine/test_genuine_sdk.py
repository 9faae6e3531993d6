"""The SDK of the genuine client in a script: every method that the checklist has, its success and its refusals."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.genuine.genuine_client import GenuineClient, Sdk
from tests.genuine.sdk_calls import CALLS, RAISED, Call, filled
from tests.genuine.world import (
    World,
    afterwards_at_rest,
)
from tests.kit.api.shapes import misfits

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def sdk(genuine: GenuineClient, world: World) -> Iterator[Sdk]:
    with genuine.sdk(world.guest.url) as call:
        yield call


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_genuine_sdk(sdk: Sdk, world: World, call: Call) -> None:
    with (call.given or afterwards_at_rest)(world) as facts:
        answer = sdk(call.method, filled(call.arguments, {**world.facts, **facts}))
    if call.retcode == RAISED:
        assert call.says in answer["raised"]
        return
    assert (answer["retcode"], call.says in answer["retmsg"]) == (call.retcode, True), answer
    assert "is not known; it is ignored" not in str(answer)
    assert list(misfits(answer.get("data"), call.data)) == []


def test_every_method_that_asks_a_server_is_called(genuine: GenuineClient) -> None:
    """But `job.generate_dsl`, as `flow job dsl`, and `data.download_history`, which does nothing."""
    methods = {
        f"{path.stem}.{one.name}"
        for path in (genuine.folder / "site packages" / "flow_sdk" / "client" / "api").glob("*.py")
        for api in ast.parse(path.read_text()).body if isinstance(api, ast.ClassDef) and path.stem != "base"
        for one in api.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
    }
    called = {call.method for call in CALLS}
    assert {name for name in methods - called if not name.startswith(("version.", "test."))} <= {
        "job.generate_dsl", "data.download_history",
    }
    assert called <= methods


@pytest.mark.parametrize(("method", "version"), [
    ("api", "v1"), ("fate", "1.11.2"), ("fate_flow", "1.11.2"), ("fate_board", ""), ("centos", ""), ("ubuntu", ""),
    ("jdk", ""), ("maven", ""), ("eggroll", ""), ("spark", ""),
])
def test_the_sdk_asks_for_versions(sdk: Sdk, method: str, version: str) -> None:
    assert sdk(f"remote_version.{method}", {}) == version


def test_where_no_server_answers_the_sdk_says_so(genuine: GenuineClient) -> None:
    with genuine.sdk("http://127.0.0.1:1") as call:
        for method in ("job.list", "queue.clean", "task.list"):
            said = call(method, {})
            assert (said["retcode"], "Connection refused" in said["retmsg"]) == (100, True)
        assert call("remote_version.api", {}) is None
