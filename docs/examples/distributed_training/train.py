"""Distributed training without a framework: every worker has its own rows and computes their gradient. In each round,
rank 0 adds up the gradients and sends the new weights back. Only gradients leave a party, rows do not. Each worker
reports the loss on its rows, which stays at its party; `flow job watch` shows it there.
"""

import json
import os
import random
import sys

sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
from fate_flow.components.gang import join
from fate_flow.components.metrics import reporter

ROUNDS, RATE = int(os.environ.get("ROUNDS", "15")), 1.5
TRUTH = (3.0, -2.0)


def rows_of(rank):
    """Return points of y = 3 x - 2, different ones for each worker."""
    chance = random.Random(rank)
    return [(x, TRUTH[0] * x + TRUTH[1]) for x in (chance.uniform(-1, 1) for _ in range(50))]


def gradient(weights, rows):
    """Return the gradient, and the loss of these weights."""
    errors = [(weights[0] * x + weights[1] - y, x) for x, y in rows]
    mine = [sum(e * x for e, x in errors) / len(rows), sum(e for e, _ in errors) / len(rows)]
    return mine, sum(e * e for e, _ in errors) / len(rows)


def main():
    gang, metrics = join(), reporter()
    rows, weights = rows_of(gang.rank), [0.0, 0.0]
    for round_number in range(ROUNDS):
        mine, loss = gradient(weights, rows)
        metrics.step("loss", loss, round_number, axis="rounds")
        if gang.rank == 0:
            parts = [mine] + [json.loads(gang.receive(rank)) for rank in range(1, gang.size)]
            total = [sum(column) / gang.size for column in zip(*parts, strict=True)]
            weights = [w - RATE * g for w, g in zip(weights, total, strict=True)]
            for rank in range(1, gang.size):
                gang.send(rank, json.dumps(weights).encode())
        else:
            gang.send(0, json.dumps(mine).encode())
            weights = json.loads(gang.receive(0))
        print(f"round {round_number}: {weights[0]:.4f} {weights[1]:.4f}", flush=True)
    print(f"rank {gang.rank} of {gang.size} has learned {weights[0]:.2f} {weights[1]:.2f}")


main()
