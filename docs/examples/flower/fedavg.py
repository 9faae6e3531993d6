"""Federated averaging with Flower: the guest runs the SuperLink and the ServerApp, each host a SuperNode with its rows.

The job starts `main` at each party. Flower itself starts the two apps below, from a bundle that holds this file.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

client_app = ClientApp()
server_app = ServerApp()
WORK = Path(os.environ.get("FEDAVG_WORK", "."))        # of the worker: an app runs in a folder of Flower's


# ---------------------------------------------------------------------- what Flower runs


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Make one step down the gradient of this party's rows: the average of such steps is the step for all rows."""
    with open(context.node_config["rows"], newline="") as file:
        rows = np.array([[float(one) for one in row[1:]] for row in list(csv.reader(file))[1:]])
    x, y = np.column_stack([rows[:, :-1], np.ones(len(rows))]), rows[:, -1]
    weights = message.content["arrays"].to_numpy_ndarrays()[0]
    errors = x @ weights - y
    moved = weights - context.run_config["rate"] * x.T @ errors / len(rows)
    measured = MetricRecord({"loss": float(errors @ errors / len(rows)), "num-examples": len(rows)})
    return Message(RecordDict({"arrays": ArrayRecord([moved]), "metrics": measured}), reply_to=message)


class OfAll(FedAvg):
    """An average without the host that failed would be another model, so a failure ends the training."""

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        if failed := [one.error.reason for one in replies if one.has_error()]:
            raise RuntimeError(f"round {server_round}: {'; '.join(map(str, failed))}")
        return super().aggregate_train(server_round, replies)


@server_app.main()
def serve(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = OfAll(fraction_evaluate=0.0, min_train_nodes=config["hosts"], min_available_nodes=config["hosts"])
    begin = ArrayRecord([np.zeros(config["columns"] + 1)])
    result = strategy.start(grid, begin, num_rounds=config["rounds"])
    losses = [measured["loss"] for _, measured in sorted(result.train_metrics_clientapp.items())]
    draft = WORK / "model.draft"
    draft.write_text(json.dumps({"weights": result.arrays.to_numpy_ndarrays()[0].tolist(), "losses": losses}))
    draft.replace(WORK / "model.json")


# ---------------------------------------------------------------------- what the job runs


def main() -> None:
    sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
    from fate_flow.components.gang import join

    os.environ |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",      # where Flower looks for its commands
        "FLWR_HOME": str(Path("home").absolute()), "FEDAVG_WORK": str(Path().absolute()),
        "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
    }  # fmt: skip
    gang = join()
    if os.environ["FATE_FLOW_ROLE"] == "guest":
        lead(gang, os.environ["FATE_FLOW_LISTEN_FL"])
    else:
        follow(gang, os.environ["FATE_FLOW_PORT_FL"])


def lead(gang, address: str) -> None:
    """Start the SuperLink, run the app there, and keep what it has learned."""
    host, port = address.split(":")
    link = subprocess.Popen([
        "flower-superlink", "--insecure", "--host", host, "--port", port, "--disable-runtime-dependency-installation",
    ])  # fmt: skip
    wait_for(f"http://{address}/health", link)
    tell(gang, b"the SuperLink is ready")
    Path("app").mkdir()
    for name in ("pyproject.toml", "fedavg.py"):
        shutil.copy(name, "app")
    Path("home").mkdir(exist_ok=True)
    Path("home/config.toml").write_text(f'[superlink.job]\naddress = "{address}"\ninsecure = true\n')
    subprocess.run(["flwr", "run", "app", "job", "--stream"], check=True)
    # Flower's commands end well, too, when the app has failed or never ran.
    if not Path("model.json").exists():
        sys.exit("the ServerApp has ended without a model: see above")
    tell(gang, b"the model is there")
    link.terminate()
    link.wait()
    model = json.loads(Path("model.json").read_text())
    Path("rounds.csv").write_text("round,loss\n" + "".join(f"{n},{x!r}\n" for n, x in enumerate(model["losses"], 1)))
    print("weights:", *model["weights"])


def tell(gang, what: bytes) -> None:
    for rank in gang.ranks_of("host"):
        gang.send(rank, what)


def wait_for(url: str, process: subprocess.Popen) -> None:
    """Wait until this address answers. A process that has ended before that has failed, whatever its exit code."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{process.args[0]} has ended with exit code {process.returncode} before it was ready")


def follow(gang, address: str) -> None:
    """Run a SuperNode from when the SuperLink is ready until the guest has the model."""
    [guest] = gang.ranks_of("guest")
    gang.receive(guest)
    own = address.split(":")[0]               # a loopback address of this attempt: nobody else listens there
    rows = Path(os.environ["FATE_FLOW_VOLUME_ROWS"], "rows.csv")
    node = subprocess.Popen([
        "flower-supernode", "--insecure", "--superlink", address, "--host", own, "--port", "9094",
        "--node-config", f"rows={json.dumps(str(rows))}",
    ])  # fmt: skip
    done = threading.Event()

    def listen() -> None:
        gang.receive(guest)
        done.set()

    threading.Thread(target=listen, daemon=True).start()
    while not done.wait(0.2):
        if node.poll() is not None:
            sys.exit(f"flower-supernode has ended with exit code {node.returncode} before the guest had the model")
    node.terminate()
    node.wait()


if __name__ == "__main__":
    main()
