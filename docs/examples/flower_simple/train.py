"""Federated averaging with Flower's simple form: the guest runs `start_server`, each host `start_client` with its rows."""

import csv
import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
from flwr.client import NumPyClient, start_client
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerConfig, start_server
from flwr.server.strategy import FedAvg

sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
from fate_flow.components.gang import join

HOSTS, COLUMNS, ROUNDS = (int(os.environ[name]) for name in ("HOSTS", "COLUMNS", "ROUNDS"))
RATE = float(os.environ["RATE"])


class Host(NumPyClient):
    """Makes steps down the gradient of its rows: the average of such steps is the step for all rows."""

    def __init__(self, path: Path) -> None:
        with path.open(newline="") as file:
            rows = np.array([[float(one) for one in row[1:]] for row in list(csv.reader(file))[1:]])
        self._x, self._y = np.column_stack([rows[:, :-1], np.ones(len(rows))]), rows[:, -1]
        self.rounds = 0

    def fit(self, parameters, config):
        [weights] = parameters
        errors = self._x @ weights - self._y
        self.rounds += 1
        moved = weights - RATE * self._x.T @ errors / len(errors)
        return [moved], len(errors), {"loss": float(errors @ errors / len(errors))}


def average(measured):
    rows = sum(count for count, _ in measured)
    return {"loss": sum(count * one["loss"] for count, one in measured) / rows}


def announce(gang, address: str) -> None:
    """Tell the hosts once the server listens: gRPC gives up a connection that nobody answers for 20 seconds."""
    host, port = address.split(":")
    while True:
        with suppress(OSError):
            socket.create_connection((host, int(port))).close()
            break
        time.sleep(0.1)
    for rank in gang.ranks_of("host"):
        gang.send(rank, b"the server listens")


def lead(gang, address: str) -> None:
    """Average what the hosts send, and keep what was learned."""
    threading.Thread(target=announce, args=(gang, address), daemon=True).start()
    found = {}
    strategy = FedAvg(
        fraction_evaluate=0.0, min_fit_clients=HOSTS, min_available_clients=HOSTS, accept_failures=False,
        initial_parameters=ndarrays_to_parameters([np.zeros(COLUMNS + 1)]), fit_metrics_aggregation_fn=average,
        evaluate_fn=lambda _, weights, __: found.update(weights=weights[0].tolist()),
    )  # fmt: skip
    history = start_server(server_address=address, config=ServerConfig(num_rounds=ROUNDS), strategy=strategy)
    losses = [loss for _, loss in history.metrics_distributed_fit.get("loss", [])]
    # A round in which a host failed leaves the weights as they were, and no metric: Flower ends well all the same.
    if len(losses) != ROUNDS:
        sys.exit(f"{len(losses)} of {ROUNDS} rounds have ended well")
    Path("model.json").write_text(json.dumps({**found, "losses": losses}))
    Path("rounds.csv").write_text("round,loss\n" + "".join(f"{n},{loss!r}\n" for n, loss in enumerate(losses, 1)))
    print("weights:", *found["weights"])


def follow(gang, address: str) -> None:
    gang.receive(*gang.ranks_of("guest"))
    host = Host(Path(os.environ["FATE_FLOW_VOLUME_ROWS"], "rows.csv"))
    start_client(server_address=address, client=host.to_client(), insecure=True)
    if host.rounds != ROUNDS:
        sys.exit(f"the guest asked for {host.rounds} of {ROUNDS} rounds")


if os.environ["FATE_FLOW_ROLE"] == "guest":
    lead(join(), os.environ["FATE_FLOW_LISTEN_FL"])
else:
    follow(join(), os.environ["FATE_FLOW_PORT_FL"])
