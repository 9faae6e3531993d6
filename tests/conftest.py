"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from _pytest.tmpdir import tmppath_result_key
from hypothesis import HealthCheck, settings

from tests.division import FromBothEnds, has_only_long, is_brief, is_for_heavy, is_reported

pytest.register_assert_rewrite("tests.kit", "tests.store_contract")   # a failure shows its values, as in a test


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FromBothEnds:
    return FromBothEnds(config, log)


COLLECTED_AFTER = (1_000, 10, 40)
"""With Python's own (700, 10, 10) the collector takes an eighth of the time of unit tests, most of it for what stays
until the end. Much rarer, it leaves threads and sockets for too long that tests of commands do not close."""


HEAVY = Path(__file__).parent / "heavy"
"""Tests of `bin/test --heavy`, which runs those with the mark `heavy` in other folders, too."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where long tests are left out, a file that has no others is not imported, unless it is asked for by name; nor is
    the folder of heavy tests anywhere."""
    is_left_out = config.option.markexpr.startswith("not long") and has_only_long(collection_path)
    if not is_left_out and collection_path != HEAVY:
        return None
    asked = {(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args}
    return None if any(one == collection_path or HEAVY == collection_path in one.parents for one in asked) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.kit.servers.mariadb import MYSQL  # not before its assertions are registered

    for item in items:
        if HEAVY in item.path.parents or is_for_heavy(item, MYSQL in os.environ):
            item.add_marker("heavy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*COLLECTED_AFTER)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """As pytest's own; but a process of xdist sends what matters, and not six messages for each test."""
    if not is_brief(item.config):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if is_reported(report):
            item.ihook.pytest_runtest_logreport(report=report)
    return True


NUMBERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As pytest's own, which looks through the folders of all earlier tests for a number, and makes a link to each."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.mktemp(f"{name}{next(NUMBERS)}", numbered=False)
    yield path
    has_passed = request.node.stash[tmppath_result_key].get("call", True)
    if has_passed and request.config.getini("tmp_path_retention_policy") == "failed":
        rmtree(path, ignore_errors=True)


@pytest.fixture
def no_gc() -> Iterator[None]:
    """For tests that make trees or tokens of many files: the collector would look at all of them again and again,
    which takes three times as long as making them."""
    gc.disable()
    yield
    gc.enable()


# A busy machine makes no test fail: nothing is judged by how long it took.
settings.register_profile("fate_flow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("fate_flow"), max_examples=25)    # of `bin/test --fast`
settings.load_profile("fate_flow")
