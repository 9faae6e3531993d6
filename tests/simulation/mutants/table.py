"""All mutants, each with the worlds in which it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from fate_flow.store.memory.store import MemoryTransaction
from fate_flow.store.sql.store import SqlTransaction
from tests.simulation.chaos import LONG_TASK
from tests.simulation.mutants import (
    initiator_bugs,
    participant_bugs,
    policy_bugs,
    program_bugs,
    queue_bugs,
    rerun_bugs,
    store_bugs,
)
from tests.simulation.troubles import (
    clock_step,
    dead_route,
    death,
    isolation,
    long_partition,
    long_stall,
    stall,
    unheard_start,
    unheard_success,
)
from tests.simulation.world.world import RULES


@dataclass(frozen=True)
class Mutant:
    """`within`: so many seeds from `first` have to be enough; `style`: what their worlds have in common (chaos.Style).

    The hunt begins with a seed that shows the bug in a short story. The seeds after it are for the day when that one no
    longer shows it: a change of the code may change every story."""

    name: str
    patched: Callable[[], AbstractContextManager[Any]]
    style: Mapping[str, Any] = field(default_factory=dict)
    within: int = 100
    first: int = 0
    store: str = "memory"


_HOLDS = {"holds": 1.0, "approvals": 0.0, "is_crowded": True, "parties": 3, "cores": 2, "longest_task": 400}
_EARLY = {"reserves_early": True}
_LONG_ROUNDS = _HOLDS | {"delay": 200, "is_gentle": False, "trouble": 0.0, "crash": 0.0, "reserves_early": False}
_APPROVALS = _HOLDS | {"holds": 0.0, "approvals": 1.0}
_STALLS = {"servers": 2, "trouble": 0.8, "troubles": (stall,), "longest_task": 8_000}
_GPUS = {"gpus": 0.7}
_NEEDS = {"needs": 1.0, "cores": 6}
_BESIDE = _NEEDS | _GPUS
_CROWD = {"is_crowded": True, "has_echoes": True, "parties": 4, "cores": 2, "longest_task": 400}
_BROKEN = {"broken": 0.3, "rate": 0.07}
_SLOW_STOPS = _BROKEN | {"delay": 200, "longest_stop": 20_000, "reruns": 0.0}
_REPEATS = {"rate": 0.07, "delay": 200, "has_echoes": True}
_DEATHS = {"trouble": 0.8, "troubles": (death,), "crash": 0.04, "command_keep": RULES.command_keep}
_UNHEARD = {"parties": 3, "trouble": 1.0, "troubles": (unheard_start,), "delay": 50}
_RERUNS = {"reruns": 1.0, "rate": 0.07, "delay": 200}
_PLAIN_V1 = {
    "crash": 0.0, "trouble": 0.0, "programs": 0.0, "policies": 0.0, "partial": 0.0, "holds": 0.0, "approvals": 0.0,
}
_LATE_RERUNS = _RERUNS | _PLAIN_V1 | {"has_echoes": True, "parties": 2, "longest_task": 2_000}
_LATE_RETURNS = _CROWD | _PLAIN_V1 | {"parties": 3, "rate": 0.07, "reruns": 0.0, "broken": 0.0}
_CHANGES = _RERUNS | {"changes": 1.0, "command_keep": 45_000}
_SLOW = {"returns": 0.0, "longest_task": 90_000, "longest_stop": 20_000}
_SLOW_RERUNS = _RERUNS | _PLAIN_V1 | _SLOW | {"trouble": 0.8, "troubles": (isolation, death), "parties": 2}
_MATCH = {"policies": 1.0, "broken": 0.3}
_LATE_STARTS = {"policies": 1.0, "delay": 200, "rate": 0.07, "longest_task": 8_000}
_QUIET = {"rate": 0.0, "trouble": 0.0, "crash": 0.0}
_PARTIAL = {"partial": 1.0, "broken": 0.3, "parties": 4, "programs": 0.0}
_LONG = {"longest_task": LONG_TASK, "returns": 0.0}
_GIVEN_UP = _PARTIAL | _LONG | {"broken": 0.0, "trouble": 0.9, "troubles": (long_partition,)}
_STALLED = _QUIET | _LONG | {"trouble": 1.0, "troubles": (long_stall,), "policies": 0.0}
_RETURNS = {
    "returns": 1.0, "policies": 0.0, "partial": 0.0, "longest_task": LONG_TASK, "trouble": 1.0, "reruns": 0.0,
    "troubles": (long_partition,), "crash": 0.0, "command_keep": RULES.command_keep, "programs": 0.0,
}  # fmt: skip
_UNHEARD_ENDS = _RETURNS | {"parties": 2, "delay": 200, "troubles": (unheard_success,)}
_CUT_OFF = _QUIET | _LONG | {"trouble": 1.0, "troubles": (dead_route,), "policies": 0.0}
_PROGRAMS = {"programs": 1.0, "parties": 3}
_ELASTIC = _PROGRAMS | {"elastic": 1.0, "cores": 3, "parties": 2, "longest_task": 8_000, "is_gentle": True}
_CLOCKS = _MATCH | {"trouble": 1.0, "troubles": (clock_step,), "longest_task": 8_000}

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        Mutant("no fence, in memory", lambda: store_bugs.no_fence(MemoryTransaction), _STALLS, first=6),
        Mutant("no fence, in SQL", lambda: store_bugs.no_fence(SqlTransaction), _STALLS, first=6, store="sqlite"),
        Mutant("a return ignores the round", lambda: store_bugs.return_ignores_the_round(MemoryTransaction),
               _LATE_RETURNS, first=60),
        Mutant("a return ignores the round, in SQL", lambda: store_bugs.return_ignores_the_round(SqlTransaction),
               _LATE_RETURNS, first=34, store="sqlite"),
        Mutant("cores come back twice", store_bugs.cores_come_back_twice, first=5),
        Mutant("GPUs come back twice", store_bugs.gpus_come_back_twice, _GPUS),
        Mutant("cores come back to the default engine", store_bugs.cores_come_back_to_the_default_engine, _GPUS),
        Mutant("what is on other engines stays there", store_bugs.what_is_on_other_engines_stays_there, _BESIDE),
        Mutant("the engine of the job reserves all", store_bugs.the_engine_of_the_job_reserves_all, _BESIDE),
        Mutant("a job reserves the smallest needs of its tasks", participant_bugs.reserves_the_smallest_needs, _NEEDS),
        Mutant("a job reserves what one of its tasks needs", participant_bugs.reserves_for_one_task, _NEEDS),
        Mutant("two workers have one device", program_bugs.two_workers_have_one_device, _GPUS | _ELASTIC),
        Mutant("a repeated apply takes cores again", store_bugs.apply_takes_again, _REPEATS, first=8),
        Mutant("the UPDATE reserves what is not there", store_bugs.sql_reserves_what_is_not_there,
               _CROWD, store="sqlite"),
        Mutant("reservation rounds are not taken over", store_bugs.reservation_rounds_are_not_taken_over,
               _DEATHS, first=32),
        Mutant("held without a reservation", initiator_bugs.takes_a_check_for_a_hold, first=25),
        Mutant("starts without a hold", participant_bugs.starts_without_a_hold),
        Mutant("a worker for each request to start", participant_bugs.starts_a_worker_for_each_request,
               _REPEATS, first=11),
        Mutant("no record of a move", participant_bugs.no_record_of_a_move),
        Mutant("no record of a version", participant_bugs.no_record_of_a_version, first=11),
        Mutant("nothing expires", participant_bugs.nothing_expires, _DEATHS, within=50, first=320),
        Mutant("the initiator is not told", participant_bugs.ended_workers_are_not_told, first=37),
        Mutant("everybody is told of capacity", participant_bugs.notifies_everybody_of_capacity, _CROWD, first=36),
        Mutant("capacity notices are repeated", participant_bugs.repeats_capacity_notices, _CROWD, first=13),
        Mutant("capacity notices pile up in the outbox", participant_bugs.capacity_notices_go_through_the_outbox,
               _CROWD, first=36),
        Mutant("no roll back", initiator_bugs.does_not_roll_back, _CROWD, first=12),
        Mutant("one seat is not told to stop", initiator_bugs.forgets_to_tell_a_seat_to_stop, _BROKEN, first=32),
        Mutant("one seat is not told the end", initiator_bugs.forgets_to_tell_a_seat_the_end, first=27),
        Mutant("reports of older versions count", initiator_bugs.takes_reports_of_older_versions,
               _SLOW_STOPS, first=257),
        Mutant("a task begins before its inputs", initiator_bugs.starts_before_the_inputs, first=51),
        Mutant("a retry while the gang still runs", initiator_bugs.retries_while_the_gang_still_runs, _BROKEN, first=3),
        Mutant("the outbox is forgotten at a restart", queue_bugs.outbox_is_forgotten_at_a_restart, _DEATHS, first=25),
        Mutant("a rerun keeps the run", rerun_bugs.a_rerun_keeps_the_run, _RERUNS, first=25),
        Mutant("a party takes a rerun while it drains", rerun_bugs.takes_a_rerun_while_it_drains,
               _SLOW_RERUNS, first=109),
        Mutant("a rerun forgets the parameters", rerun_bugs.a_rerun_forgets_the_parameters, _CHANGES, first=1512),
        Mutant("a reservation round before all know of the rerun", rerun_bugs.has_a_reservation_round_before_all_know,
               _RERUNS, first=20),
        Mutant("commands of the last run count", rerun_bugs.commands_of_the_last_run_count,
               _LATE_RERUNS, first=78),
        Mutant("who has started is not told to wait", initiator_bugs.who_has_started_is_not_told_to_wait,
               _UNHEARD, first=13),
        Mutant("a long wait keeps the cores", rerun_bugs.a_long_wait_keeps_the_cores, _BROKEN, first=62),
        Mutant("rules do not wait", policy_bugs.rules_do_not_wait, _MATCH, within=200, first=11),
        Mutant("restarts are not counted", policy_bugs.restarts_are_not_counted, _MATCH, first=62),
        Mutant("what is overtaken still stands", policy_bugs.what_is_overtaken_stands,
               _LATE_STARTS, within=200, first=11),
        Mutant("a task goes on with too few parties", policy_bugs.goes_on_with_too_few, _PARTIAL, within=300, first=36),
        Mutant("who was given up is lost again", policy_bugs.who_was_given_up_is_lost_again, _GIVEN_UP, first=5),
        Mutant("who found a silence out is blamed", policy_bugs.who_found_it_out_is_blamed, _STALLED, first=9),
        Mutant("who is cut off is waited for", policy_bugs.who_is_cut_off_is_waited_for, _CUT_OFF, first=67),
        Mutant("initiators get no heartbeat", policy_bugs.initiators_get_no_heartbeat, _CUT_OFF, first=788),
        Mutant("a job does not wait for who comes back", policy_bugs.does_not_wait_for_who_comes_back,
               _RETURNS, first=37),
        Mutant("nobody asks what was kept", policy_bugs.nobody_asks_what_was_kept, _UNHEARD_ENDS,
               within=700, first=125),
        Mutant("nobody is told who is missing", policy_bugs.nobody_is_told_who_is_missing, _PARTIAL | _QUIET, first=11),
        Mutant("a share succeeds with its first worker", program_bugs.a_share_succeeds_with_its_first_worker,
               _PROGRAMS),
        Mutant("what one party made is published at once", program_bugs.what_one_party_made_is_published_at_once,
               _PROGRAMS, first=151),
        Mutant("elastic workers stay whoever waits", program_bugs.elastic_workers_stay, _ELASTIC, first=20),
        Mutant("elastic workers begin while others wait", program_bugs.elastic_workers_begin_while_others_wait,
               _ELASTIC, first=20),
        Mutant("what an elastic worker held is lost", program_bugs.elastic_workers_keep_their_cores, _ELASTIC),
        Mutant("elastic workers run beside the books", program_bugs.elastic_workers_take_nothing,
               _ELASTIC, store="sqlite"),
        Mutant("durations by the wall clock", queue_bugs.durations_by_the_wall_clock, _CLOCKS, first=36),
        Mutant("the last in the queue goes first", queue_bugs.youngest_first, _CROWD, first=24),
        Mutant("forgets what it has reserved", participant_bugs.forgets_what_it_has_reserved, _EARLY),
        Mutant("a held job goes on in its reservation round", queue_bugs.a_held_job_goes_on, _LONG_ROUNDS, first=74),
        Mutant("a held job has reservation rounds", queue_bugs.a_held_job_has_reservation_rounds, _HOLDS, first=36),
        Mutant("reserves without approval", queue_bugs.reserves_without_approval, _APPROVALS, first=4),
        Mutant("nobody looks whether it is approved", queue_bugs.nobody_looks_again, _APPROVALS, first=31),
        Mutant("a held party reserves", queue_bugs.a_held_party_reserves, _HOLDS, first=19),
    )
}  # fmt: skip
