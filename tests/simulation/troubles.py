"""What befalls a party or the network as a whole: partitions, deaths, stops, clocks that jump."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fate_flow.core.model.job import JobKey
from fate_flow.core.model.status import JobStatus, TaskStatus
from tests.simulation.world.party import SimParty
from tests.simulation.world.process import Process
from tests.simulation.world.world import World

Trouble = Callable[[World, Random], None]

_HOUR = 3_600_000
_SILENCE = 12_000


def partition(world: World, draw: Random) -> None:
    """In one direction or in both, for a while that may be longer than a lease."""
    one, other = draw.sample(world.party_ids, 2)
    ways = [(one, other)] if draw.random() < 0.6 else [(one, other), (other, one)]
    for way in ways:
        world.inject("partition", "->".join(way))
        world.cuts.add(way)
    world.at(world.now + _for_a_while(draw), lambda: world.cuts.difference_update(ways))


def long_partition(world: World, draw: Random) -> None:
    """About as long as the parties are patient, so that now the one and now the other gives up first, or both do."""
    one, other = draw.sample(world.party_ids, 2)
    ways = draw.choice([[(one, other)], [(one, other), (other, one)]])
    begins = world.now + draw.randint(0, 4_000)
    def begin() -> None:
        if not world.is_calm:
            for way in ways:
                world.inject("partition", "->".join(way))
            world.cuts.update(ways)

    world.at(begins, begin)
    world.at(begins + draw.randint(15_000, 60_000), lambda: world.cuts.difference_update(ways))


def dead_route(world: World, draw: Random) -> None:
    """One party cannot open a connection to another, which reaches it: mostly for longer than anybody is patient.

    Where nothing else goes wrong, what the other one runs there is over in time."""
    one, other = draw.sample(world.party_ids, 2)
    begins, lasts = world.now + draw.randint(0, 3_000), draw.randint(5_000, 150_000)
    bound = begins + world.rules.party_silence + _TIME_TO_NOTICE
    needing: set[tuple[str, int]] = set()

    def begin() -> None:
        needing.update(world.invariants.needing(other, one))
        world.kill_route(one, other)

    def check() -> None:
        if (one, other) in world.dead_routes and world.faults.crash == 0:
            world.invariants.gave_up(needing, other, one)

    world.at(begins, begin)
    world.at(bound, check)
    world.at(begins + lasts, lambda: world.dead_routes.discard((one, other)))


_TIME_TO_NOTICE = 25_000
"""Milliseconds: some heartbeats in a row may be lost on either way, and each costs a pause."""


def unheard_start(world: World, draw: Random) -> None:
    """A party reserves for a job, and then hears nothing of anybody for longer than it holds what it has reserved."""
    deaf = _some(world, draw)
    ways = [(other, deaf.party_id) for other in world.party_ids if other != deaf.party_id]

    def begins() -> bool:
        rows = world.invariants.seen(deaf).jobs.values()
        return any(row.holds and row.status is JobStatus.WAITING and not row.is_initiator for row in rows)

    _cut_when(world, begins, ways, draw.randint(world.rules.hold, world.rules.hold + 6_000), within=2_000)


def unheard_success(world: World, draw: Random) -> None:
    """A task has succeeded, and one of its parties is cut off before it hears so, for longer than it is patient."""
    lonely = _some(world, draw)

    def begins() -> bool:
        rows = world.invariants.seen(lonely)
        for key, row in rows.tasks.items():
            job = rows.jobs.get(JobKey(key.job_id, key.party))
            if job is not None and row.runs_here and row.status is TaskStatus.RUNNING and not job.is_initiator:
                asked = world.invariants.seen(world.parties[job.initiator.party_id]).tasks.get(key)
                if asked is not None and asked.status is TaskStatus.SUCCESS:
                    return True
        return False

    patience = world.rules.initiator_silence
    _cut_when(world, begins, _ways_of(world, lonely.party_id), draw.randint(patience, 2 * patience), within=60_000)


def _cut_when(
    world: World, begins: Callable[[], bool], ways: list[tuple[str, str]], lasts: int, within: int
) -> None:  # fmt: skip
    """Cut these ways for `lasts` milliseconds when it `begins`, if that is `within` so many."""
    until = world.now + within

    def watch() -> None:
        if world.is_calm:
            return
        if begins():
            world.inject("partition", ", ".join(map("->".join, ways)))
            world.cuts.update(ways)
            world.at(world.now + lasts, lambda: world.cuts.difference_update(ways))
        elif world.now < until:
            world.at(world.now + 5, watch)

    watch()


def _ways_of(world: World, party_id: str) -> list[tuple[str, str]]:
    return [way for other in world.party_ids if other != party_id for way in ((party_id, other), (other, party_id))]


def isolation(world: World, draw: Random) -> None:
    """One party and nobody else."""
    lonely = draw.choice(world.party_ids)
    ways = _ways_of(world, lonely)
    world.inject("partition", f"{lonely} alone")
    world.cuts.update(ways)
    world.at(world.now + _for_a_while(draw), lambda: world.cuts.difference_update(ways))


def death(world: World, draw: Random) -> None:
    """A process, or a whole server, is killed between two things that it does."""
    server = draw.choice(_some(world, draw).servers)
    what = draw.choice([server, server.http, server.scheduling])
    world.inject("killed", what.name)
    what.end()


def power_cut(world: World, draw: Random) -> None:
    party = _some(world, draw)
    world.inject("power cut", party.party_id)
    party.power_cut()


def stall(world: World, draw: Random) -> None:
    """SIGSTOP, perhaps for longer than its lock lives; then it goes on with what it was about to do."""
    party = _some(world, draw)
    schedules = [server for server in party.servers if party.books.schedules().startswith(f"{server.name}-")]
    server = draw.choice(schedules or party.servers)
    stopped: list[Process] = draw.choice([[server.scheduling], [server.http], [server.http, server.scheduling]])
    for process in stopped:
        world.inject("stopped", process.name)
        process.halt()
    world.at(world.now + _for_a_while(draw), lambda: [process.go_on() for process in stopped])


def long_stall(world: World, draw: Random) -> None:
    """SIGSTOP of all servers of a party, for longer than the others are patient with it; nothing else is wrong."""
    party = _some(world, draw)
    stopped = [process for server in party.servers for process in (server.http, server.scheduling)]
    lasts = draw.randint(world.rules.initiator_silence, 2 * world.rules.initiator_silence)

    def begin() -> None:
        world.inject("stopped", party.party_id)
        for process in stopped:
            process.halt()
        world.at(world.now + lasts, lambda: [process.go_on() for process in stopped])

    world.at(world.now + draw.randint(1_000, 10_000), begin)


def clock_step(world: World, draw: Random) -> None:
    """The wall clock of a machine is set, forward or back; what measures durations is not."""
    party = _some(world, draw)
    step = draw.choice([draw.randint(-_HOUR, _HOUR), draw.randint(-5_000, 5_000)])
    world.inject("clock step", f"{party.party_id} by {step} ms")
    party.skew += step


def fewer_cores(world: World, draw: Random) -> None:
    """The configuration shrinks the cores while they are in use."""
    party = _some(world, draw)
    cores = draw.randint(1, party.size.cores)
    world.inject("fewer cores", f"{party.party_id}: {cores} of {party.size.cores}")
    party.shrink(cores)


TROUBLES: tuple[Trouble, ...] = (
    partition, partition, isolation, unheard_start, death, death, power_cut, stall, stall, clock_step, fewer_cores,
)  # fmt: skip


def _some(world: World, draw: Random) -> SimParty:
    return world.parties[draw.choice(world.party_ids)]


def _for_a_while(draw: Random) -> int:
    return draw.choice([draw.randint(100, 3_000), draw.randint(1_000, _SILENCE), draw.randint(_SILENCE, 70_000)])
