"""Stories about records: jobs over a bad network, and a party whose record is put back to an older state meanwhile."""

from __future__ import annotations

from random import Random

from tests.kit.job_documents import job
from tests.kit.store.record_backup import RecordBackup
from tests.simulation.world.faults import CALM, rough
from tests.simulation.world.witnesses import restore_record
from tests.simulation.world.world import World


def restored_story(seed: int, forks: bool = False) -> World:
    """Two or three parties and some jobs. The record of one is put back to an older state between them; `forks`: that
    party believes nobody, and goes on as if nothing had been. Raises Violation."""
    draw = Random(f"restored {seed}")
    world = World(seed, parties=draw.choice([2, 3]), cores=8, keeps_record=True)
    world.faults = draw.choice([CALM, rough(0.06, 50, 0.0), rough(0.03, 20, 0.01)])
    _submit(world, draw)
    world.run_for(draw.choice([1.5, 4, 12]))
    party = world.parties[draw.choice(world.party_ids)]
    backup = RecordBackup(party.store)
    world.run_for(draw.choice([0.0, 3.0]))
    _submit(world, draw)
    world.run_for(draw.choice([1.0, 3.0, 15.0]))
    if forks:
        world.forkers.add(party.party_id)
    restore_record(party, backup)
    for _ in range(draw.randint(1, 2)):
        world.run_for(draw.choice([0.1, 4.0]))
        _submit(world, draw)
    world.run_for(draw.choice([2, 20]))
    world.stabilize(180)
    return world


def _submit(world: World, draw: Random) -> None:
    guest, *hosts = draw.sample(world.party_ids, len(world.party_ids))
    world.submit(guest, job({"guest": [guest], "host": hosts}, {"a": [], "b": ["a"]}))
