"""One run of everything at once from one seed.

`python -m tests.simulation.chaos SEED [store]` replays it with its transcript."""

from __future__ import annotations

import sys
import time

from tests.simulation.world import CALM, Faults, World, job

GRAPHS: tuple[dict[str, list[str]], ...] = (
    {"a": []},
    {"a": [], "b": ["a"]},
    {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]},
)


def run_seed(seed: int, store: str = "memory") -> World:
    """Parties, jobs, faults and stops drawn from the seed; raises AssertionError when a rule is broken."""
    draw = World(seed, 1).random
    rate = draw.choice([0.0, 0.02, 0.1])
    faults = Faults(rate, rate, rate, draw.choice([5, 50, 400]), draw.choice([0.0, 0.005, 0.03]), rate, rate / 2)
    world = World(seed, parties=draw.randint(2, 5), cores=draw.randint(2, 6), faults=faults, store=store)
    for _ in range(draw.randint(1, 8)):
        _submit_some_job(world, draw)
        world.run_for(draw.choice([0.0, 0.1, 1.0, 4.0]))
        _do_something(world, draw)
    world.run_for(draw.choice([1, 10, 60]))
    world.stabilize(400)
    world.faults = CALM
    return world


def _submit_some_job(world: World, draw) -> None:
    parties = draw.sample(world.party_ids, draw.randint(2, len(world.party_ids)))
    cores = draw.randint(1, 2)
    hosts = parties if draw.random() < 0.15 else parties[1:]      # a party may hold two seats of a job
    document = job(
        {"guest": parties[:1], "host": hosts}, draw.choice(GRAPHS), cores=cores,
        parallelism=draw.choice([1, 1, 2]) if cores == 1 else 1, retries=draw.choice([0, 1, 2]),
    )
    world.submit(parties[0], document)


def _do_something(world: World, draw) -> None:
    what = draw.random()
    if what < 0.2 and world.submitted:
        world.stop(draw.choice(world.party_ids), draw.choice(world.submitted))
    elif what < 0.3:
        one, other = draw.sample(world.party_ids, 2)
        world.cut(one, other)
    elif what < 0.4:
        world.heal()
    elif what < 0.45:
        node = world.nodes[draw.choice(world.party_ids)]
        if node.is_up:
            node.crash()


def main() -> int:
    seed, store = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "memory"
    began = time.monotonic()
    world = run_seed(seed, store)
    print("\n".join(world.transcript))
    print(f"seed {seed}: {world.steps} steps in {time.monotonic() - began:.1f} s, all settled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
