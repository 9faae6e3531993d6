"""What holds for the v1 adapter whatever is submitted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.errors import BadDocument
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.fate_v1.reader import component_parameters_on, effective_document
from tests.kit.jobspec.fate_v1_documents import DEFAULTS, EXAMPLES, MODULES, a_conf, a_dsl, read
from tests.kit.jobspec.parsing import parse, problems

pytestmark = pytest.mark.long

KEYS = st.sampled_from([
    "dsl_version", "initiator", "role", "job_parameters", "component_parameters", "provider", "common", "guest", "host",
    "0", "0|1", "all", "task_cores", "timeout", "task_conf", "eggroll_run", "components", "module", "input", "output",
    "data", "model", "cache", "isometric_model", "train_data", "x", "reader_0", "need_run", "party_id", "work_mode",
    "inheritance_info", "job_type", "federated_status_collect_type", "auto_retry_delay",
]) | st.text(max_size=5)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["2", "train", "predict", "PULL", "Reader", "x.raw", "9001", "guest", 2, 9001])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20)


def paths_of(document: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    found = [(*above, key) for key in keys]
    return found + [path for key in keys for path in paths_of(document[key], (*above, key))]


@st.composite
def mutants(draw):
    """An example of the reference with something else, or nothing, at a few places."""
    pair = list(copy.deepcopy(draw(st.sampled_from(list(EXAMPLES.values())))))
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(paths_of(pair)))
        inside: Any = pair
        for key in above:
            inside = inside[key]
        if draw(st.booleans()) or not above or not isinstance(inside, dict):
            inside[last] = draw(ANYTHING)
        else:
            del inside[last]
    return tuple(pair)


def outcome_of(dsl, conf, strict):
    """The spec, or the message of the only error there may be."""
    try:
        return parse(dsl, conf, modules=MODULES, defaults=DEFAULTS, strict=strict)
    except BadDocument as error:
        return error.message


def check_outcome(dsl, conf, strict):
    """What must hold for any two documents."""
    found = outcome_of(dsl, conf, strict)
    every = problems(dsl, conf, modules=MODULES, defaults=DEFAULTS, strict=strict)
    if isinstance(found, str):
        assert every[0] == found
        assert found.isprintable()
        assert found.startswith(("dsl", "job_runtime_conf"))
        return
    assert every == []
    assert all(warning.isprintable() for warning in found.warnings)
    for party in found.parties:
        assert effective_document(found, party)["job_parameters"]["task_cores"] > 0
        for task in found.tasks_of(party):
            assert component_parameters_on(found, task, party)["module"] == task.module
    order = list(found.tasks)
    assert all(order.index(up) < order.index(task.name) for task in found.tasks.values() for up in task.upstream)
    elsewhere = JobParameters(task_cores=99, timeout_seconds=1, computing_partitions=77)
    assert parse(dsl, found.conf, modules=MODULES, defaults=elsewhere, strict=strict) == found


@given(ANYTHING, ANYTHING, st.booleans())
def test_any_json_is_read_or_refused(dsl, conf, strict):
    check_outcome(dsl, conf, strict)


@given(mutants(), st.booleans())
def test_any_slip_in_an_example_is_read_or_refused(pair, strict):
    check_outcome(*pair, strict)


@given(st.dictionaries(KEYS, ANYTHING, max_size=4))
def test_any_job_parameters_are_read_or_refused(common):
    check_outcome(a_dsl(), a_conf(job_parameters={"common": common}), strict=False)


@given(st.dictionaries(KEYS, ANYTHING, max_size=4))
def test_any_component_is_read_or_refused(component):
    check_outcome(a_dsl(x={"module": "Reader", **component}), a_conf(), strict=False)


@given(ANYTHING, ANYTHING)
def test_reading_changes_nothing(dsl, conf):
    before = repr((dsl, conf))
    outcome_of(dsl, conf, strict=False)
    assert repr((dsl, conf)) == before


INDEXES = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda indexes: "|".join(map(str, indexes)))
SELECTORS = st.dictionaries(INDEXES | st.just("all"), st.integers(), max_size=6)


@given(SELECTORS)
def test_the_smallest_group_that_means_a_party_counts(values):
    blocks = {selector: {"x": {"v": value}} for selector, value in values.items()}
    conf = a_conf(role={"guest": [9001], "host": [1, 2, 3, 4]},
                  component_parameters={"common": {"x": {"v": None}}, "role": {"host": blocks}})
    task = read(conf=conf).tasks["x"]
    for index, party in enumerate(task.parties[1:]):
        assert task.parameters[party]["v"] == _value_for(values, index)


def _value_for(values, index):
    """The value of the smallest group that holds an index, of equals that with the highest ones; else that of all."""
    groups = [(sorted({int(one) for one in selector.split("|")}), selector) for selector in values if selector != "all"]
    meant = [(-len(group), group, selector) for group, selector in groups if index in group]
    return values[max(meant)[2]] if meant else values.get("all")


@given(st.permutations(["all", "0|1", "0"]))
def test_the_order_of_unlike_blocks_does_not_matter(selectors):
    conf = a_conf(component_parameters={"role": {"host": {one: {"x": {"v": one}} for one in selectors}}})
    task = read(conf=conf).tasks["x"]
    assert [task.parameters[party]["v"] for party in task.parties[1:]] == ["0", "0|1"]
