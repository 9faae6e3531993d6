"""Workers in a cluster are never there twice and never unseen, whatever fails; and bugs that break this are found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.engines.placed import engine, seen, submitting
from fate_flow.engines.placed.cluster import Stage, Taken, Unreadable
from fate_flow.engines.placed.engine import PlacedEngine
from fate_flow.engines.placed.seen import Seen
from tests.simulation.world.placed import Broken, SimCluster, run

SEEDS = range(25)
Mutate = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_rule_is_broken(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path)


def test_the_workers_of_a_gang_are_submitted_together_now_and_then(tmp_path: Path) -> None:
    assert sum(run(seed, tmp_path / str(seed)) for seed in range(3))


def submits_again_in_doubt(patch: pytest.MonkeyPatch) -> None:
    right = PlacedEngine._answered

    def wrong(self, order, answer):  # type: ignore[no-untyped-def]
        right(self, order, answer)
        if answer.taken is Taken.IN_DOUBT:
            self._orders.add(order.placement)

    patch.setattr(PlacedEngine, "_answered", wrong)


def submits_several_again_when_they_are_in_doubt_as_one(patch: pytest.MonkeyPatch) -> None:
    right = PlacedEngine._answer_to

    def wrong(self, placements):  # type: ignore[no-untyped-def]
        answer = right(self, placements)
        is_in_doubt = len(placements) > 1 and answer.taken is Taken.IN_DOUBT
        return replace(answer, taken=Taken.TOO_MANY) if is_in_doubt else answer

    patch.setattr(PlacedEngine, "_answer_to", wrong)


def gives_up_without_the_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacedEngine, "_never_start", lambda self, *end: self._end(*end) or True)


def believes_that_a_lost_node_computes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(seen, "_has_surely_ended", lambda _: True)


def lets_a_second_job_hide_a_lost_node(patch: pytest.MonkeyPatch) -> None:
    right = Seen.with_listing

    def wrong(self, listed, at):  # type: ignore[no-untyped-def]
        return right(replace(self, may_compute=False), listed and replace(listed, hides_lost_node=False), at)

    patch.setattr(Seen, "with_listing", wrong)


def takes_an_unknown_word_for_an_end(patch: pytest.MonkeyPatch) -> None:
    right = Seen.with_listing

    def wrong(self, listed, at):  # type: ignore[no-untyped-def]
        return right(self, None if listed is not None and listed.stage is Stage.UNKNOWN else listed, at)

    patch.setattr(Seen, "with_listing", wrong)
    patch.setattr(seen, "_has_surely_ended", lambda _: True)


def takes_a_cluster_that_is_away_for_an_empty_one(patch: pytest.MonkeyPatch) -> None:
    right = SimCluster.listing

    def wrong(self):  # type: ignore[no-untyped-def]
        try:
            return right(self)
        except Unreadable:
            return []

    patch.setattr(SimCluster, "listing", wrong)


def leaves_jobs_whose_worker_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacedEngine, "_cancel_unwanted", lambda *_: None)


def submits_without_the_intent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "intend", lambda *_: True)


def counts_what_another_process_has_not_submitted_yet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacedEngine, "_may_be_submitted", lambda *_: False)


def waits_for_ever_for_a_process_that_nobody_can_look_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(submitting, "LONGEST_SECONDS", math.inf)


def lets_a_gang_begin_whose_workers_are_placed(patch: pytest.MonkeyPatch) -> None:
    right = PlacedEngine.observe
    patch.setattr(PlacedEngine, "observe", lambda self, folder: replace(
        seen := right(self, folder), has_arrived=seen.is_placed
    ))  # fmt: skip


@pytest.mark.parametrize("mutate", [
    submits_again_in_doubt, submits_several_again_when_they_are_in_doubt_as_one, gives_up_without_the_claim,
    believes_that_a_lost_node_computes_nothing,
    lets_a_second_job_hide_a_lost_node,
    takes_an_unknown_word_for_an_end, takes_a_cluster_that_is_away_for_an_empty_one,
    leaves_jobs_whose_worker_has_ended, submits_without_the_intent, counts_what_another_process_has_not_submitted_yet,
    waits_for_ever_for_a_process_that_nobody_can_look_at, lets_a_gang_begin_whose_workers_are_placed,
])  # fmt: skip
def test_a_bug_is_found(mutate: Mutate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises(Broken):
        _run_all(tmp_path)


def _run_all(home: Path) -> None:
    for seed in SEEDS:
        run(seed, home / str(seed))
