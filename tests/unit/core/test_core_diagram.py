"""The diagrams say what the tables say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fate_flow.core.diagram import all_diagrams, diagram
from fate_flow.core.model.status import JOB_END, JOB_MOVES, SEAT_MOVES, TASK_END, TASK_MOVES, WORKER_MOVES

MACHINES = [JOB_MOVES, TASK_MOVES, SEAT_MOVES, WORKER_MOVES]


@pytest.mark.parametrize("moves", MACHINES)
def test_every_move_is_drawn_once_and_no_other(moves):
    drawn = [line.strip() for line in diagram(moves).splitlines()[1:] if "[*]" not in line]
    assert sorted(drawn) == sorted(f"{old.value} --> {new.value}" for old, row in moves.items() for new in row)


@pytest.mark.parametrize(("moves", "ends"), [(JOB_MOVES, JOB_END), (TASK_MOVES, TASK_END)])
def test_the_ends_are_drawn_as_ends(moves, ends):
    lines = diagram(moves, ends).splitlines()
    assert {line.split()[0] for line in lines if line.endswith("--> [*]")} == {end.value for end in ends}


def test_a_small_machine_in_full():
    assert diagram(WORKER_MOVES) == "\n".join((
        "stateDiagram-v2",
        "    [*] --> created",
        "    created --> running",
        "    created --> exited",
        "    running --> exited",
        "    exited --> [*]",
    ))


def test_the_module_prints_the_same_in_every_process():
    seen = [
        subprocess.run([sys.executable, "-m", "fate_flow.core.diagram"], env={"PYTHONHASHSEED": seed},
                       capture_output=True, check=True, text=True).stdout
        for seed in ("1", "2")
    ]
    assert seen == [all_diagrams()] * 2
    assert seen[0].count("```mermaid\nstateDiagram-v2\n") == len(MACHINES)
