"""`bin/demo` before it starts a server: its options, its folder, FATE's Python; and the computation that it compares
with. `tests/heavy/test_demo.py` runs all of it."""

from __future__ import annotations

import fcntl
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.cli.console.wording import job_title
from fate_flow.cli.output.curves import Curve, new_points

CHECKOUT = Path(__file__).parents[3]
DEMO = CHECKOUT / "bin" / "_demo"


def demo(*arguments: object, program: Path = DEMO, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-P", program, *arguments]
    return subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, cwd=cwd, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of an earlier demo, with a file that a new one would remove."""
    (tmp_path / "demo" / "cluster").mkdir(parents=True)
    (tmp_path / "demo" / "result.csv").touch()
    return tmp_path / "demo"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fast"], "unrecognized arguments: --fast"),
        (["--provider", sys.executable], "--provider: only the demo with FATE's algorithms needs it; add --fate"),
        (["--fate", "--provider"], "--provider: expected one argument"),
    ],
)
def test_wrong_usage_is_named(arguments: list[str], said: str, folder: Path) -> None:
    done = demo("--dir", folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert (folder / "result.csv").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere/python", "is not there, or cannot be executed"),
        (".", "is not there, or cannot be executed"),
        (sys.executable, "has no FATE 2.2.0, but none at all"),
    ],
)
def test_a_python_without_fate_is_refused_before_anything_is_removed(name: str, said: str, folder: Path) -> None:
    done = demo("--fate", "--provider", name, "--dir", folder, cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"demo: --provider: {Path(name)} {said}; bin/fate-provider install makes one, and prints its path\n"
    )
    assert (folder / "result.csv").exists()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Another checkout, whose commands a test makes up."""
    shutil.copytree(DEMO, tmp_path / "a checkout" / "bin" / "_demo")
    return tmp_path / "a checkout"


def command(checkout: Path, name: str, script: str) -> None:
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


def test_fate_that_cannot_be_installed_ends_the_demo_with_the_reason(checkout: Path, tmp_path: Path) -> None:
    command(checkout, "fate-provider", 'echo "Error: no python3.11 for $*" >&2; exit 4')
    done = demo("--fate", program=checkout / "bin" / "_demo", cwd=tmp_path)
    assert done.returncode == 4
    assert done.stdout == "looking for FATE 2.2.0 ...\n"
    assert done.stderr == (
        "Error: no python3.11 for install --json\ndemo: bin/fate-provider install --json ended with 4\n\n"
    )
    assert [path.name for path in checkout.iterdir()] == ["bin"]


def test_each_server_gets_the_installed_fate(checkout: Path, tmp_path: Path) -> None:
    command(checkout, "fate-provider", """echo '{"python": "/opt/fate/bin/python"}'""")
    command(checkout, "cluster", 'echo "no ports for $1" >&2; exit 1')
    done = demo("--fate", program=checkout / "bin" / "_demo", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "no ports for up")
    confs = sorted((checkout / ".cache" / "demo" / "cluster").glob("*/conf/local.service_conf.yaml"))
    assert [path.parents[1].name for path in confs] == ["10000", "10001", "9999"]
    for path in confs:
        assert read_yaml(path.read_text(encoding="utf-8")).value == {
            "providers": {"fate": {"version": "2.2.0", "python": "/opt/fate/bin/python"}}
        }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a checkout"]


def test_a_folder_that_no_demo_has_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    for given, said in (
        (tmp_path, "has files that no demo has made; name a new folder"), (tmp_path / "thesis.txt", "is not a folder")
    ):  # fmt: skip
        done = demo("--dir", given)
        assert (done.returncode, done.stderr) == (1, f"demo: --dir: {given} {said}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_of_two_demos_in_one_folder_the_second_is_refused(folder: Path) -> None:
    with folder.with_name(".demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = demo("--dir", folder)
    assert (done.returncode, done.stderr) == (
        1, f"demo: another demo runs in {folder}; wait for it, or name a --dir\n"
    )  # fmt: skip
    assert (folder / "result.csv").exists()


# ---------------------------------------------------------------------- commands at once


@contextmanager
def imported(name: str) -> Iterator[Any]:
    """A module of the demo; it and those that it imports are forgotten afterwards."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DEMO)
        yield importlib.import_module(name)
    for one in {path.stem for path in DEMO.glob("*.py")} & (set(sys.modules) - before):
        del sys.modules[one]

MEETS = """#!/bin/sh
# flow --server URL NAME OTHERS...: answers once the others have begun
shift 2; touch "$1"; for one in "$@"; do while [ ! -e "$one" ]; do sleep 0.01; done; done; echo "{\\"name\\": \\"$1\\"}"
"""
FAILS = """#!/bin/sh
shift 2; echo $$ > "$1.pid"; [ "$1" = a ] || exec sleep 600
while [ ! -s b.pid ]; do sleep 0.01; done; echo refused; exit 3
"""


@pytest.fixture
def servers_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """With a `flow` that a test makes up."""
    monkeypatch.chdir(tmp_path)
    with imported("servers") as module:
        monkeypatch.setattr(module, "_FLOW", tmp_path / "flow")
        yield module


def flow_is(script: str) -> None:
    Path("flow").write_text(script)
    Path("flow").chmod(0o700)


def commands(module: Any, *arguments: tuple[str, ...]) -> list[tuple[Any, tuple[str, ...]]]:
    server = module.Server(module.Organisation("guest", "9999", "retailer"), "http://127.0.0.1:1", Path())
    return [(server, one) for one in arguments]


def test_commands_at_several_servers_run_at_once(servers_module: Any) -> None:
    flow_is(MEETS)
    answers = servers_module.flow_at_once(commands(servers_module, ("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")))
    assert answers == [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def test_a_command_that_fails_ends_the_others(servers_module: Any) -> None:
    flow_is(FAILS)
    with pytest.raises(SystemExit, match=r"^flow a ended with 3\nrefused\n$"):
        servers_module.flow_at_once(commands(servers_module, ("a",), ("b",)))
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("b.pid").read_text()), 0)


# ---------------------------------------------------------------------- in one place


@pytest.fixture(scope="module")
def in_one_place() -> Iterator[Any]:
    with imported("in_one_place") as module:
        yield module


def test_the_loss_of_a_watched_job_is_passed_on_without_the_name_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    """What `flow job watch` prints is read by the heavy test of the demo, and by people."""
    job_id = "202611272020170145780"
    title = job_title(job_id, "credit scores")
    curve = Curve("train", "arbiter-10001", 0, "train/lr_loss", "iteration", ((0, 0.693147), (1, 0.5)))
    lines = [f"{title}, created 11-27 20:20: waiting", *new_points(title, (), [curve]), f"{title} task train: x"]
    with imported("credit_scores") as module:
        for only_loss in (True, False):
            module._pass_on(StringIO("\n".join(lines)), "arbiter", job_id, only_loss)
    loss = "  arbiter | task train arbiter-10001: train/lr_loss 0.693147, 0.5 (iteration 0 to 1)"
    assert capsys.readouterr().out.splitlines() == [
        loss, "  arbiter | job, created 11-27 20:20: waiting", loss, "  arbiter | task train: x",
    ]  # fmt: skip


def test_the_auc_is_the_part_of_the_pairs_in_the_right_order(in_one_place: Any) -> None:
    assert in_one_place.auc([0.9, 0.8, 0.3, 0.1], [1, 1, 0, 0]) == 1.0
    assert in_one_place.auc([0.9, 0.8, 0.3, 0.1], [0, 1, 1, 0]) == 0.5
    assert in_one_place.auc([0.9, 0.4, 0.4, 0.1], [1, 0, 1, 0]) == 0.875


def test_the_regression_follows_the_gradients(in_one_place: Any) -> None:
    """One column of -1, 0 and 1, already scaled: the numbers of two rounds can be had by hand."""
    learned = in_one_place.learn([[-1.0], [0.0], [1.0]], [0, 1, 1], rounds=2, rate=0.3, alpha=0.1)
    assert (learned.means, learned.deviations) == ((0.0,), (1.0,))
    # First round: the errors are 1/2, -1/2, -1/2, so the slope is -1/3, that of the intercept -1/6.
    weight, intercept = 0.1, 0.05
    sums = [intercept - weight, intercept, intercept + weight]
    errors = [0.25 * one - 0.5 * sign for one, sign in zip(sums, (-1, 1, 1), strict=True)]
    loss = sum(log(2) - 0.5 * sign * one + one**2 / 8 for one, sign in zip(sums, (-1, 1, 1), strict=True)) / 3
    assert learned.losses == pytest.approx((log(2), loss + 0.05 * (weight**2 + intercept**2)), abs=1e-15)
    slope = (errors[2] - errors[0]) / 3
    assert learned.weights == pytest.approx((weight - 0.3 * (slope + 0.1 * weight),), abs=1e-15)
    assert learned.intercept == pytest.approx(intercept - 0.3 * sum(errors) / 3, abs=1e-15)
    assert learned.score([2.0]) == pytest.approx(1 / (1 + exp(-learned.intercept - 2 * learned.weights[0])), abs=1e-15)


def test_the_demo_deploys_tasks_of_its_job_file(in_one_place: Any) -> None:
    """What the demo names of the file is there: otherwise only a run of some minutes would notice."""
    text = (CHECKOUT / "docs" / "examples" / "fate" / "credit_scores.yaml").read_text(encoding="utf-8")
    tasks = read_yaml(text).value["tasks"]
    assert {"read", "match", "split", "scale", "train", "evaluate"} <= tasks.keys()
    asked = tasks["train"]["parameters"]
    assert asked["he_param"] == {"kind": "paillier", "key_length": 2048}
    assert (asked["tol"], asked["optimizer"]["method"], asked["optimizer"]["penalty"]) == (0.0, "sgd", "l2")
