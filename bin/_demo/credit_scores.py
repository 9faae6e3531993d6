"""A bank and a telecom company train, deploy and use a model with FATE's algorithms, and neither shows its rows.

The bank (guest 9999) knows who did not pay. The telecom (host 10000) knows other things of partly the same customers.
The arbiter (10001) has no rows; it decrypts sums. All that happens goes through the command `flow`. The script
compares the results with those of the same computation in one place, which only the script can do: it made the tables.
"""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from random import Random
from typing import IO, Any

import yaml
from in_one_place import Learned, auc, learn
from provider import VERSION
from servers import CHECKOUT, Folder, Organisation, Server, Servers, how_to_go_on, running, short

EXAMPLES = CHECKOUT / "docs" / "examples" / "fate"
TRAINING, PREDICTION = EXAMPLES / "credit_scores.yaml", EXAMPLES / "credit_scores_predict.yaml"
MODEL = "credit_scores"
"""The id of the model in both files."""
BANK, TELECOM, ARBITER = "bank", "telecom", "arbiter"
ORGANISATIONS = (
    Organisation("guest", "9999", BANK), Organisation("host", "10000", TELECOM),
    Organisation("arbiter", "10001", ARBITER),
)  # fmt: skip
LABEL, ID = "defaulted", "customer"
COLUMNS = {BANK: ("income", "debts", "years"), TELECOM: ("bill", "days_late", "top_ups")}
EFFECTS = (-1.1, 0.9, -0.4, 0.2, 1.3, 0.7)
SEED = 14
OWN, NEW = {BANK: range(200), TELECOM: range(50, 250)}, {BANK: range(250, 290), TELECOM: range(260, 300)}
"""The numbers of the customers in the tables of the training, and of those in the tables of new customers."""
DEPLOYED = "match,scale,train"
READY_SECONDS, LOOK_SECONDS = 900.0, 2.0
AUC_DIFFERS, SCORE_DIFFERS = 1e-12, 1e-4


@dataclass(frozen=True)
class Customer:
    """What there is to know of one, by column; and the label, which is 1 for one who did not pay."""

    values: Mapping[str, float]
    label: int

    def row(self) -> list[float]:
        return [self.values[name] for names in COLUMNS.values() for name in names]


Customers = Mapping[str, Customer]


def run(folder: Folder, python: Path, keep: bool) -> bool:
    """Run the demo with the FATE of this Python, and return whether the results are those of one place."""
    print("A bank knows who did not pay; a telecom company knows other things of partly the same customers. They train")
    print("one model with FATE's algorithms, over three servers. An arbiter decrypts sums (Paillier, 2048 bits).\n")
    conf = {"providers": {"fate": {"version": VERSION, "python": str(python)}}}
    with running(folder, ORGANISATIONS, keep, conf) as servers:
        customers = make_customers()
        _title("1. Each side uploads its table; the rows are of partly the same customers")
        for name in COLUMNS:
            upload(folder, servers[name], "customers", customers, OWN[name], with_label=True)
        await_components(servers)
        _title("2. They train: the customers that both have, a split, scaling, the regression, its evaluation")
        trained = submit(servers[BANK], TRAINING)
        watch(servers, trained, loss_at=ARBITER)
        learned, is_right = compare(folder, servers, trained, customers)
        _title("3. The bank deploys the model; each side keeps its own part")
        deploy(servers)
        _title("4. New customers: they predict with the deployed model")
        for name in COLUMNS:
            upload(folder, servers[name], "new_customers", customers, NEW[name], with_label=False)
        predicted = submit(servers[BANK], PREDICTION)
        watch(servers, predicted)
        is_right = show_scores(folder, servers[BANK], predicted, customers, learned) and is_right
        tell_who_learned_what(len(OWN[BANK]), len(OWN[TELECOM]))
        if keep:
            how_to_go_on(folder, servers[BANK], trained, "model list")
    return is_right


def _title(text: str) -> None:
    print(f"\n{text}")


def _command(server: Server, *arguments: str) -> None:
    """Print a command as its user would type it."""
    shown = " ".join(short(Path(one)) if one.startswith("/") else shlex.quote(one) for one in arguments)
    print(f"  {server.of.name:<7} $ flow {shown}")


# ------------------------------------------------------------------ data


def make_customers() -> Customers:
    """Make up everybody. Who did not pay depends on columns of both sides, and on chance."""
    draw, found = Random(SEED), {}
    for number in range(NEW[TELECOM].stop):
        drawn = [draw.gauss(0, 1) for _ in EFFECTS]
        fails = draw.random() < 1 / (1 + exp(-sum(map(float.__mul__, drawn, EFFECTS))))
        income, debts, years, bill, days_late, top_ups = drawn
        values = {
            "income": round(exp(8 + 0.3 * income), 2), "debts": round(exp(8 + 0.5 * debts), 2),
            "years": round(8 + 2.5 * years, 1), "bill": round(exp(3.5 + 0.4 * bill), 2),
            "days_late": round(12 + 5 * days_late, 1), "top_ups": round(30 + 9 * top_ups, 1),
        }  # fmt: skip
        found[f"C{number:04}"] = Customer(values, int(fails))
    return found


def upload(
    folder: Folder, server: Server, table: str, customers: Customers, numbers: Sequence[int], *, with_label: bool
) -> None:
    """Write the table of an organisation as a CSV file, and upload it there; only the bank has labels."""
    name, columns = server.of.name, COLUMNS[server.of.name]
    label = {"label_name": LABEL} if with_label and name == BANK else {}
    ids = [list(customers)[number] for number in numbers]
    path = folder.root / f"{name}_{table}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow([ID, *label.values(), *columns])
        for one in ids:
            labels = [customers[one].label] if label else []
            lines.writerow([one, *labels, *(customers[one].values[column] for column in columns)])
    conf = {
        "file": str(path), "head": 1, "partition": 1, "id_delimiter": ",", "namespace": "demo", "table_name": table,
        "meta": {"match_id_name": ID, "dtype": "float64", **label},
    }  # fmt: skip
    arguments = "data", "upload", "-c", str(folder.write(f"upload_{path.stem}.json", conf)), "--watch"
    _command(server, *arguments)
    server.flow(*arguments, is_quiet=True)
    info = server.flow("table", "info", "-n", "demo", "-t", table)["data"]
    print(f"          {info['count']} rows: {', '.join([ID, *label.values(), *columns])}")


def await_components(servers: Servers) -> None:
    """Wait until each server has looked at FATE's components. Raise SystemExit with its reason if one does not."""
    print(f"  waiting until each server knows the components of FATE {VERSION} ...")
    began = time.monotonic()
    for server in servers.values():
        while not (said := server.flow("provider", "list", "-n", "fate")["data"]["fate"][VERSION])["is_ready"]:
            if time.monotonic() - began > READY_SECONDS:
                raise SystemExit(f"demo: the {server.of.name} cannot use FATE's components: {said['why_not']}")
            time.sleep(LOOK_SECONDS)
    print(f"          ready after {time.monotonic() - began:.0f} s")


# ------------------------------------------------------------------ jobs


def submit(bank: Server, job_file: Path) -> str:
    """Submit a job file at the bank, and return the id of the job."""
    _command(bank, "job", "submit", "-f", str(job_file))
    return str(bank.flow("job", "submit", "-f", str(job_file))["jobId"])


def watch(servers: Servers, job_id: str, loss_at: str = "") -> None:
    """Show a job to its end, as the bank sees it, and the loss where it is known. Raise SystemExit if the job fails."""
    watching = [servers[name] for name in (BANK, loss_at) if name]
    running_now = []
    for server in watching:
        _command(server, "job", "watch", "-j", job_id)
        argv = server.command("job", "watch", "-j", job_id)
        running_now.append(subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ))  # fmt: skip
    try:
        threads = []
        for server, process in zip(watching, running_now, strict=True):
            assert process.stderr is not None
            arguments = process.stderr, server.of.name, job_id, server.of.name == loss_at
            threads.append(threading.Thread(target=_pass_on, args=arguments))
            threads[-1].start()
        for thread in threads:
            thread.join()
        code = running_now[0].wait()
    finally:
        for process in running_now:
            process.kill()
            process.wait()
    if code:
        logs = ", ".join(short(server.home / "logs" / job_id) for server in servers.values())
        raise SystemExit(f"demo: job {job_id} has not succeeded; logs: {logs}")


def _pass_on(lines: IO[str], name: str, job_id: str, only_loss: bool) -> None:
    """Print the lines of a watch: `job ID (NAME)` is left out before a task, and is `job` elsewhere."""
    title = re.compile(rf"job {job_id}(?: \([^)]*\))?")
    for line in lines:
        if not only_loss or "lr_loss" in line:
            print(f"  {name:<7} | {title.sub('job', line.rstrip()).removeprefix('job ')}")


def output(folder: Folder, server: Server, job_id: str, task: str, key: str) -> list[dict[str, str]]:
    """Return the rows of an output table of a task."""
    arguments = "component", "output-data", "-j", job_id, *server.seat, "-cpn", task, "-o"
    directory = Path(server.flow(*arguments, str(folder.root))["directory"])
    with (directory / f"{key}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def metrics(server: Server, job_id: str, task: str) -> dict[str, Any]:
    """Return the metrics of a task here, by name."""
    _command(server, "component", "metric-all", "-j", job_id, *server.seat, "-cpn", task)
    said = server.flow("component", "metric-all", "-j", job_id, *server.seat, "-cpn", task)["data"]
    return {name: one["data"] for names in said.values() for name, one in names.items()}


# ------------------------------------------------------------------ results


def compare(folder: Folder, servers: Servers, job_id: str, customers: Customers) -> tuple[Learned, bool]:
    """Print what was learned beside the same computation in one place; return that, and whether they agree."""
    print()
    bank, parts = servers[BANK], ("train", "test")
    ids = [[row[ID] for row in output(folder, bank, job_id, "split", f"{part}_output_data")] for part in parts]
    labels = [[customers[one].label for one in part] for part in ids]
    rows = [[customers[one].row() for one in part] for part in ids]
    asked = yaml.safe_load(TRAINING.read_text(encoding="utf-8"))["tasks"]["train"]["parameters"]
    rate, alpha = asked["optimizer"]["optimizer_params"]["lr"], asked["optimizer"]["alpha"]
    learned = learn(rows[0], labels[0], rounds=asked["epochs"], rate=rate, alpha=alpha)
    wanted = [
        auc([learned.score(row) for row in part], of_part) for part, of_part in zip(rows, labels, strict=True)
    ]  # fmt: skip
    found = [one["val"] for _, sets in metrics(bank, job_id, "evaluate")["evaluation"]
             for entries in sets.values() for one in entries if one["metric"] == "auc"]  # fmt: skip
    losses = [value for _, [value] in metrics(servers[ARBITER], job_id, "train")["lr_loss"]]
    print(f"\n  {'':<44} {'over three servers':>18} {'in one place':>18}")
    for part, own, one, other in zip(("the training", "the test"), ids, found, wanted, strict=True):
        print(f"  {f'AUC of {len(own)} customers of {part}':<44} {one:>18.12f} {other:>18.12f}")
    text = f"loss at round {len(losses)}, which the arbiter knows"
    print(f"  {text:<44} {losses[-1]:>18.6f} {learned.losses[-1]:>18.6f}")
    weights = iter(learned.weights)
    for name, columns in COLUMNS.items():
        for column, one in zip(columns, weights_of(servers[name]), strict=True):
            text = f"weight of {column}, which the {name} knows"
            print(f"  {text:<44} {one:>18.6f} {next(weights):>18.6f}")
    is_right = all(abs(one - other) <= AUC_DIFFERS for one, other in zip(found, wanted, strict=True))
    print(f"  the AUCs are {'equal' if is_right else 'NOT EQUAL'} to 12 digits")
    return learned, is_right


def weights_of(server: Server) -> list[float]:
    """Return the weights of the columns of an organisation, which are in its own part of the model alone."""
    arguments = "model", "show", "--model-id", MODEL, *server.seat, "--task-name", "train"
    [part] = server.flow(*arguments)["data"]["models"]
    return [one for [one] in part["content"]["data"]["estimator"]["param"]["coef_"]]


def deploy(servers: Servers) -> None:
    """Show what each side has of the model, and deploy it at the bank, which has started its training."""
    for server in servers.values():
        _command(server, "model", "list", "--model-id", MODEL)
        listed = server.flow("model", "list", "--model-id", MODEL)["data"]
        parts = ", ".join(f"{one['task_name']} ({one['bytes']} bytes)" for found in listed for one in found["models"])
        print(f"          its part: {parts}")
    arguments = "model", "deploy", "--model-id", MODEL, "--model-version", "0", "--cpn-list", DEPLOYED
    _command(servers[BANK], *arguments)
    print(f"          deployed as {servers[BANK].flow(*arguments)['data']['model_version']}")


def show_scores(folder: Folder, bank: Server, job_id: str, customers: Customers, learned: Learned) -> bool:
    """Print the highest and lowest scores beside those of one place; return whether all agree."""
    _command(bank, "component", "output-data", "-j", job_id, *bank.seat, "-cpn", "score", "-o", str(folder.root))
    rows = output(folder, bank, job_id, "score", "test_output_data")
    found = sorted(((float(row["predict_score"]), row[ID]) for row in rows), reverse=True)
    both = set(NEW[BANK]) & set(NEW[TELECOM])
    print(f"\n  {'will not pay':<44} {'over three servers':>18} {'in one place':>18}")
    for score, one in [*found[:3], *found[-3:]]:
        print(f"  {one:<44} {score:>18.6f} {learned.score(customers[one].row()):>18.6f}")
    most = max(abs(score - learned.score(customers[one].row())) for score, one in found)
    print(f"  {len(found)} new customers that both have; the scores differ by {most:.1e} at most")
    return len(found) == len(both) and most <= SCORE_DIFFERS


def tell_who_learned_what(of_bank: int, of_telecom: int) -> None:
    both = len(set(OWN[BANK]) & set(OWN[TELECOM]))
    _title("What each side has learned")
    texts = (
        (BANK, f"which {both} of its {of_bank} customers the telecom has, too, and how many rows the telecom has"),
        ("", "the weights of its own columns, the score of each customer that both have, and from the telecom one"),
        ("", "number for each of them: the weighted sum of its columns"),
        (TELECOM, f"which {both} of its {of_telecom} customers the bank has, too, and how many rows the bank has"),
        ("", "which of them were for training; the weights of its own columns; no label and no score"),
        (ARBITER, "the gradients and the loss of each round; no row and no customer number"),
    )
    for name, text in texts:
        print(f"  {name:<8} {text}")
    print("  What the three learn in general is in docs/reference/fate-components.md.")
