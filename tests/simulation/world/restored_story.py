"""Stories about records: jobs over a bad network, and a party whose record is put back to an older state meanwhile."""

from __future__ import annotations

from dataclasses import replace
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


def last_seconds_story(seed: int, is_late: bool = False) -> World:
    """The record of a party loses its last seconds alone, which mostly nobody has cosigned. It takes jobs before others
    answer what they hold of it, in half of the stories for seconds. What it has sent before may arrive late; `is_late`:
    each second request does. Raises Violation."""
    draw = Random(f"last seconds {seed}")
    world = World(seed, parties=draw.choice([2, 3]), cores=8, keeps_record=True)
    world.faults = draw.choice([CALM, rough(0.06, 50, 0.0), rough(0.03, 20, 0.01), rough(0.12, 100, 0.0)])
    if is_late:
        world.faults = replace(CALM, delay=draw.choice([5, 50]), late_request=0.5, repeat_request=0.2)
    _submit(world, draw)
    world.run_for(draw.choice([0.3, 1.5, 4.0]) + draw.random())
    party = world.parties[draw.choice(world.party_ids)]
    backup = RecordBackup(party.store)
    if draw.random() < 0.5:
        _submit(world, draw)
    world.run_for(draw.choice([0.05, 0.2, 0.5, 1.0, 2.0]))
    restore_record(party, backup)
    is_reached = draw.random() < 0.5
    if not is_reached:
        world.unheard.add(party.party_id)
    for _ in range(draw.randint(1, 3)):
        _submit(world, draw)
        world.run_for(draw.choice([0.1, 1.0, 4.0]))
    world.unheard.clear()
    world.run_for(draw.choice([2, 20]))
    world.stabilize(180)
    return world


def _submit(world: World, draw: Random) -> None:
    guest, *hosts = draw.sample(world.party_ids, len(world.party_ids))
    world.submit(guest, job({"guest": [guest], "host": hosts}, {"a": [], "b": ["a"]}))
