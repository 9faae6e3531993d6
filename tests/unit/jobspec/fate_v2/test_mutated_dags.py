"""Whatever stands in a DAG, it is a job or has problems; and each party has the same digest of a job."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.jobspec.fate_v2.shown import dag_of_fate_v1, shown_dag
from fate_flow.jobspec.fate_v2.submitted import as_submitted
from fate_flow.jobspec.formats import as_given_to, digest_of, parse_or_problems, with_disclosure
from tests.kit.jobspec.fate_v2_documents import GUEST, a_training, fate_table

JUNK = (
    None, 0, -1, 2.5, "", "x", "guest", [], {}, [1], [[]], {"a": 1}, {"role": "guest"}, True, "9" * 40,
    [{"role": "guest", "party_id": "9999"}], [{"role": 3, "party_id": [1]}], "fate:2.2.0@local",
    {"data": {"x": {"task_output_artifact": 3}}}, {"data_warehouse": {"namespace": "a", "name": "b"}},
)  # fmt: skip
DEFAULTS = JobParameters()


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ModuleInfo]:
    return fate_table(tmp_path_factory.mktemp("providers")).components


def places(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places(one, *path, key)


def mutated(chance: random.Random) -> Any:
    body = json.loads(json.dumps(a_training()))
    for _ in range(chance.choice((0, 1, 1, 2))):
        *path, last = chance.choice([place for place in places(body) if place])
        inside = body
        for key in path:
            inside = inside[key]
        if isinstance(inside, dict) and chance.random() < 0.2:
            del inside[last]
        else:
            inside[last] = json.loads(json.dumps(chance.choice(JUNK)))
    return body


@pytest.mark.parametrize("seed", range(4))
def test_no_dag_is_a_defect(seed: int, modules: Mapping[str, ModuleInfo]) -> None:
    chance, accepted = random.Random(seed), 0
    for _ in range(40):
        document = JobDocument(FATE_V2, as_submitted(mutated(chance), "9999", modules))
        spec, problems = parse_or_problems(document, modules=modules, defaults=DEFAULTS)
        assert (spec is None) == bool(problems)
        if spec is None:
            continue
        accepted += 1
        assert shown_dag(document.body, {})["dag"]["conf"]["initiator_party_id"] == "9999"
        assert dag_of_fate_v1(spec.dsl, spec.conf)["dag"]["tasks"].keys() == spec.tasks.keys()
        whole = with_disclosure(document, (), lambda: "ab" * 32)
        for party_id in ("10000", "10001"):
            given = as_given_to(whole, party_id)
            assert digest_of(given) == digest_of(whole)
            there, problems = parse_or_problems(given, modules=modules, defaults=DEFAULTS)
            assert there is not None, problems
    assert accepted > 5


def test_a_wrong_list_of_tasks_beside_a_right_one_is_a_problem(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["tasks"]["lr_0"]["dependent_tasks"] = [[GUEST]]
    _, problems = parse_or_problems(JobDocument(FATE_V2, body), modules=modules, defaults=DEFAULTS)
    assert problems == ["dag.tasks.lr_0.dependent_tasks: a list is not a list of components"]
