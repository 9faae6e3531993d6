"""`bin/demo --fate`, as its users run it: from nothing to the scores of new customers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.servers.party_servers import processes_of

CHECKOUT = Path(__file__).parents[2]
AUC = re.compile(r"^  AUC of (\d+) customers of the (training|test) +(0\.\d{12}) +(0\.\d{12})$", re.MULTILINE)
LOSS = re.compile(r"^  arbiter \| task train arbiter-10001: train/lr_loss ([\d.]+)", re.MULTILINE)
NUMBER = r" +(-?\d\.\d{6})"
WEIGHT = re.compile(rf"^  weight of \w+, which the (bank|telecom) knows{NUMBER}{NUMBER}$", re.MULTILINE)
SCORE = re.compile(rf"^  C\d{{4}}{NUMBER}{NUMBER}$", re.MULTILINE)


@pytest.mark.timeout(900)
def test_a_bank_and_a_telecom_train_deploy_and_use_a_model(
    python_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a path with blanks, started from another folder; afterwards no process and no other file is there."""
    python, root = python_of("fate"), tmp_path_factory.mktemp("demo")
    here, folder = root / "here", root / "a demo"
    here.mkdir()
    is_installed = python == CHECKOUT / ".cache" / "fate-2.2.0" / "bin" / "python"      # then the demo finds it itself
    named = [] if is_installed else ["--provider", python]
    environment = {**os.environ, **dict.fromkeys(("HOME", "TMPDIR"), str(here))}
    done = subprocess.run(
        [CHECKOUT / "bin" / "demo", "--fate", *named, "--dir", folder],
        cwd=here, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert processes_of(root) == []
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    [(trained, _, *of_training), (tested, _, *of_test)] = AUC.findall(done.stdout)
    assert int(trained) + int(tested) == 150, said
    for over_servers, in_one_place in (of_training, of_test):
        assert over_servers == in_one_place, said
        assert float(over_servers) > 0.7, said
    losses = [float(one) for one in LOSS.findall(done.stdout)]
    assert losses, said
    assert losses == sorted(losses, reverse=True), said
    assert losses[0] == pytest.approx(0.693147)
    assert [name for name, *_ in WEIGHT.findall(done.stdout)] == ["bank"] * 3 + ["telecom"] * 3, said
    scores = SCORE.findall(done.stdout)
    assert len(scores) == 6, said
    for over_servers, in_one_place in [*(pair for _, *pair in WEIGHT.findall(done.stdout)), *scores]:
        assert float(over_servers) == pytest.approx(float(in_one_place), abs=1e-4), said
    assert "$ flow model deploy --model-id credit_scores" in done.stdout
    assert sorted(path.name for path in root.iterdir()) == [".a demo.lock", "a demo", "here"]
    assert list(here.iterdir()) == []
