"""XGBoost as it comes: what the parties learn together is what all rows and columns in one place would teach."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import yaml

from tests.kit.servers.heavy import EXAMPLES, output, submitted, succeeded
from tests.kit.servers.party_servers import GUEST, HOST, OTHER, Cluster
from tests.kit.servers.programs import printed

pytestmark = pytest.mark.timeout(900)

COLUMNS = ("a", "b", "c", "d")
BY_ROWS = {HOST: range(180), OTHER: range(180, 300)}
BY_COLUMNS = {GUEST: ("a", "y"), HOST: ("b", "c"), OTHER: ("d",)}
CENTRAL = """
import json, sys
import numpy, xgboost
rows = numpy.loadtxt(sys.argv[1], delimiter=",", skiprows=1)
data = xgboost.DMatrix(rows[:, 1:-1], rows[:, -1])
measured = {}
central = xgboost.train(json.loads(sys.argv[3]), data, int(sys.argv[4]), evals=[(data, "train")], evals_result=measured)
together = xgboost.Booster(model_file=sys.argv[2])
difference = abs(together.predict(data) - central.predict(data)).max()
print(json.dumps([float(difference), measured["train"]["logloss"][-1]]))
"""
"""Prints how far the model of the parties is from one of all data, at the worst row; and the loss of the other."""


@pytest.fixture
def xgboost(python_of: Callable[[str], Path]) -> Path:
    return python_of("xgboost")


@pytest.fixture
def table() -> list[dict[str, float]]:
    """All rows. With few values a column has the same histogram wherever its rows are."""
    chance, found = Random(15), []
    for number in range(300):
        row = {name: round(chance.gauss(0, 1), 1) for name in COLUMNS}
        likely = row["a"] + row["b"] * row["c"] + 0.3 * chance.gauss(0, 1)
        found.append({"id": number, **row, "y": int(likely > 0)})
    return found


def text(rows: list[dict[str, float]], columns: tuple[str, ...]) -> str:
    names = ("id", *columns)
    lines = [names, *([row[name] for name in names] for row in rows)]
    return "".join(f"{','.join(map(str, line))}\n" for line in lines)


@pytest.mark.parametrize("example", ["by_rows", "by_columns"])
def test_the_parties_learn_together_what_all_data_would_teach(
    xgboost: Path, parties: Cluster, table: list[dict[str, float]], rows: Callable[[str, str], None],
    install: Callable[[str, Path], None], nothing_is_left: Callable[[Path], None], example: str, tmp_path: Path,
) -> None:  # fmt: skip
    install("xgboost-python", xgboost)
    if example == "by_rows":
        for party_id, numbers in BY_ROWS.items():
            rows(party_id, text([table[number] for number in numbers], (*COLUMNS, "y")))
    else:
        for party_id, columns in BY_COLUMNS.items():
            rows(party_id, text(table, columns))
    job = (EXAMPLES / "xgboost" / f"{example}.yaml").read_text(encoding="utf-8")
    job_id = submitted(parties, job)
    succeeded(parties, job_id)
    output(parties.guest, job_id, "model", tmp_path)
    (tmp_path / "model").rename(tmp_path / "model.json")
    (tmp_path / "all.csv").write_text(text(table, (*COLUMNS, "y")), encoding="utf-8")
    env = yaml.safe_load(job)["tasks"]["train"]["parameters"]["env"]
    said = subprocess.run(
        [xgboost, "-c", CENTRAL, "all.csv", "model.json", env["PARAMETERS"], env["ROUNDS"]], cwd=tmp_path,
        stdout=subprocess.PIPE, text=True, timeout=300, check=True,
    ).stdout  # fmt: skip
    difference, loss = json.loads(said.splitlines()[-1])
    assert difference < 1e-5
    assert float(printed(parties.host, job_id).rpartition("logloss: ")[2]) == pytest.approx(loss, rel=1e-6)
    nothing_is_left(xgboost)
