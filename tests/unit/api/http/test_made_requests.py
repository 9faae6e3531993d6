"""Requests that are made of the server's own OpenAPI document, good ones and bad ones, most of them by schemathesis.

Every answer has to be in the document, none may be a failure of the server, and what is taken and what is refused has
to be what the document says (`watched.py`). Nothing is left to chance: the requests are the same each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import schemathesis
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from schemathesis.engine import events, from_schema

from fate_flow.settings.limits import Limits
from tests.kit.api.client_world import World, make_world
from tests.kit.api.filled_world import Filled, add_files, known
from tests.kit.api.watched import Watched, schema_of

pytestmark = pytest.mark.long

SEED = 20260101
WITHOUT_CHECKS = {
    "negative_data_rejection": "FATE's clients look for the retcode, not the HTTP status; so does `watched.py`",
    "positive_data_acceptance": "the same",
    "missing_required_header": "no header is required",
}
NOT_BOUNDARIES = ("/v1/job/query", "/v1/job/task/query", "/v1/job/report", "/v1/table/bind")
"""Each column is a filter there, and `job/data/view/query` goes the same way with fewer; `table/add` is the same."""
NEEDS_MORE = {
    "POST /v1/server/reload": "a configuration file", "POST /v1/model/import": "a file of an export",
    "POST /v1/record/show": "a job in a record", "POST /v1/record/prove": "a job in a record",
    "POST /v1/record/reconcile": "a file of another party's record",
    "POST /v1/notification/show": "a client that signs, with an address",
    "POST /v1/notification/choose": "a client that signs, with an address",
}  # fmt: skip
READ_AS_A_WHOLE = {
    f"POST /v1/{path}" for path in ("job/query", "job/task/query", "job/report", "job/data/view/query", "job/list/task",
                                    "table/add", "table/bind", "model/import")
}  # fmt: skip
FAR = 1 << 33       # a time that is not over when the test is
PIECES = {"{name}": "fate_flow", "{party_id}": "10000"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = make_world(tmp_path_factory.mktemp("home"), Limits(submit_timeout=0.01))
    add_files(world)
    alive = world.services.settings.alive_file
    alive.parent.mkdir(parents=True, exist_ok=True)
    alive.write_text("1")                 # as a scheduler does
    os.utime(alive, (FAR, FAR))
    (alive.parent / "lineage").write_bytes(b"12345678")
    with world.store.transaction() as tx:
        assert tx.take_scheduler_lease(*tx.scheduler(), f"{b'12345678'.hex()}-1")
    yield world
    world.store.close()


@pytest.fixture(scope="module")
def watched(world: World) -> Watched:
    return Watched(world)


@pytest.fixture(scope="module")
def database(world: World) -> Iterator[Filled]:
    filled = Filled(world)
    yield filled
    filled.close()


@pytest.fixture(autouse=True)
def filled(database: Filled, watched: Watched) -> Iterator[None]:
    database.refill()
    yield
    problems, watched.problems = watched.problems, []
    assert problems == []


def sent(world: World, label: str, operation: dict[str, Any], names: dict[str, Any]) -> None:
    """What of these names the operation takes; that the answer is in the document, the client itself checks."""
    method, _, path = label.partition(" ")
    for variable, piece in PIECES.items():
        path = path.replace(variable, piece)
    body = {key: value for key, value in names.items() if key in schema_of(operation).get("properties", {})}
    world.client.open(path, method=method, json=body)


@pytest.mark.heavy
def test_every_operation_works(world: World, database: Filled, watched: Watched) -> None:
    for label, operation in watched.operations():
        database.refill()
        for names in known(world):
            sent(world, label, operation, names)
    assert {label for label, _ in watched.operations()} - watched.taken == NEEDS_MORE.keys()
    unread = {
        label: sorted(schema_of(operation).get("properties", {}).keys() - watched.asked[label])
        for label, operation in watched.operations() if label not in READ_AS_A_WHOLE
    }
    assert {label: keys for label, keys in unread.items() if keys} == {}, "what no handler looks at is not declared"


@pytest.mark.parametrize("seed", range(20))
def test_operations_one_after_another(world: World, watched: Watched, seed: int) -> None:
    """What one of them leaves, the next one meets."""
    random, operations, names = Random(seed), list(watched.operations()), list(known(world))
    for _ in range(20):
        sent(world, *random.choice(operations), random.choice(names))


@pytest.fixture
def own_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis likes words of the modules that are loaded; which ones are depends on the tests that ran before."""
    monkeypatch.setattr(providers, "_get_local_constants", Constants, raising=False)
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", {}, raising=False)


@pytest.mark.heavy
@pytest.mark.usefixtures("own_chance")
def test_what_schemathesis_makes_of_the_document(world: World, database: Filled, watched: Watched) -> None:
    watched.refill = database.refill
    schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", world.app.wsgi_app, config=config(watched))

    @schema.hook
    def flatmap_body(context: Any, body: Any) -> st.SearchStrategy[Any]:
        """Half of them name what is there."""
        keys = schema_of(context.operation.definition.raw).get("properties", {})
        sets = [{key: value for key, value in names.items() if key in keys} for names in known(world)]
        named = st.sampled_from(sets).map(lambda one: {**body, **one} if isinstance(body, dict) else body)
        return st.one_of(st.just(body), named)

    failures, count, other_methods = [], 0, 0
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            count += len(event.recorder.cases)
            failures += list(described(event.recorder))
            answers = [one.response for one in event.recorder.interactions.values() if one.response]
            other_methods += sum(one.status_code == 405 for one in answers)
        elif isinstance(event, events.NonFatalError | events.FatalError):
            failures.append(str(event))
    assert failures == []
    assert count > 2000
    assert other_methods > 500


def config(watched: Watched) -> schemathesis.Config:
    offered = {label.partition(" ")[2] for label, _ in watched.operations()}
    only_boundaries = {"phases": {"fuzzing": {"enabled": False}}}
    no_boundaries = {"phases": {"coverage": {"enabled": False}}}
    phases = [*dict.fromkeys(NOT_BOUNDARIES, no_boundaries).items(),
              *dict.fromkeys(watched.document["paths"].keys() - offered, only_boundaries).items()]  # fmt: skip
    return schemathesis.Config.from_dict({
        "seed": SEED,
        "analysis": {"constants": {"enabled": False}},
        "generation": {"deterministic": True, "max-examples": 4, "no-shrink": True},
        "phases": {
            "examples": {"enabled": False},
            "coverage": {"extra-data-sources": {"responses": False}},
            "fuzzing": {"extra-data-sources": {"responses": False}},
            "stateful": {"enabled": False},
        },
        "checks": {name: {"enabled": False} for name in WITHOUT_CHECKS},
        "operations": [{"include-path": path, **more} for path, more in sorted(phases, key=str)],
    })  # fmt: skip


def described(recorder: Any) -> Iterator[str]:
    """What it found wrong in one operation."""
    for case_id, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                answer = recorder.interactions[case_id].response
                body = recorder.cases[case_id].value.body
                why = f"{check.name}: {check.failure_info.failure.message}"
                yield f"{recorder.label} {body!r}: {why}: {answer and answer.content!r}"
