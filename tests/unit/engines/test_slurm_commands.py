"""What is said to sbatch, squeue and scancel, and what becomes of their ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fate_flow.core.model.resources import Need
from fate_flow.engines.placed.cluster import Placement, Taken, Unreadable
from fate_flow.engines.slurm.cluster import Share, SlurmCluster


class Commands:
    """Scripts instead of Slurm's commands, which write what they were told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("sbatch", "squeue", "scancel"):
            self.script(name, "true")

    def script(self, name: str, ends: str) -> None:
        path = self.folder / name
        path.write_text(
            f'#!/bin/sh\nfor one in "$@"; do echo "$one"; done > "{self.folder}/{name}.argv"\n'
            f"env > '{self.folder}/{name}.env'\ncat > '{self.folder}/{name}.stdin'\n{ends}\n"
        )
        path.chmod(0o755)

    def said(self, name: str, what: str = "argv") -> list[str]:
        return (self.folder / f"{name}.{what}").read_text().splitlines()


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def placement(folder: Path, **fields: object) -> Placement:
    given = {"name": "fate-flow-x-w", "argv": ("python", "-m", "a module", str(folder)), "need": Need(cores=3),
             "grace_seconds": 10.0, **fields}
    return Placement(folder=folder, **given)      # type: ignore[arg-type]


def test_a_job_has_its_name_its_folder_and_what_it_needs(commands: Commands, tmp_path: Path) -> None:
    commands.script("sbatch", "echo 17")
    cluster = SlurmCluster("fate-flow-x-", Share("long", "bank", "high", "gpu80"), commands=tmp_path)
    folder = tmp_path / "a b" / "w"
    need = Need(cores=3, memory_mb=2048, gpus=2, time_limit_seconds=3600)
    assert cluster.submit(placement(folder, need=need)).taken is Taken.ACCEPTED
    assert commands.said("sbatch") == [
        "--parsable", "--job-name=fate-flow-x-w", f"--comment={folder}", "--no-requeue",
        f"--output={folder}/cluster.out", "--open-mode=append",
        "--chdir=/", "--export=ALL", "--nodes=1", "--ntasks=1", "--cpus-per-task=3",
        "--signal=B:USR1@10", "--partition=long", "--account=bank", "--qos=high", "--constraint=gpu80", "--mem=2048M",
        "--gres=gpu:2", "--time=62",
    ]  # fmt: skip
    assert commands.said("sbatch", "stdin") == ["#!/bin/sh", f"exec python -m 'a module' '{folder}'"]


def test_a_partner_gets_what_the_party_gives_it(commands: Commands, tmp_path: Path) -> None:
    cluster = SlurmCluster("p", Share("own"), {"10000": Share("theirs", "guests")}, tmp_path)
    cluster.submit(placement(tmp_path, partner="10000"))
    assert {"--partition=theirs", "--account=guests"} <= set(commands.said("sbatch"))
    cluster.submit(placement(tmp_path, partner="10001"))
    assert "--partition=own" in commands.said("sbatch")


def test_a_queue_that_the_party_maps_to_a_partition_goes_before_the_partition_of_the_engine(
    commands: Commands, tmp_path: Path
) -> None:
    cluster = SlurmCluster("p", Share("own"), {"10000": Share("theirs", "guests")}, tmp_path)
    for partner in ("", "10000"):
        cluster.submit(placement(tmp_path, partner=partner, need=Need(cores=1, queue="night")))
        assert "--partition=night" in commands.said("sbatch")


@pytest.mark.parametrize(("constraint", "labels", "asked"), [
    ("", ("big",), "--constraint=mem512"), ("fl", ("big", "fast"), "--constraint=fl&mem512&nvme&hdr"),
    ("fl", (), "--constraint=fl"),
])  # fmt: skip
def test_labels_are_features_of_the_nodes(
    commands: Commands, tmp_path: Path, constraint: str, labels: tuple[str, ...], asked: str
) -> None:
    features = {"big": "mem512", "fast": "nvme&hdr"}
    cluster = SlurmCluster("p", Share(constraint=constraint), commands=tmp_path, features=features)
    cluster.submit(placement(tmp_path, need=Need(cores=1, labels=labels)))
    assert asked in commands.said("sbatch")


@pytest.mark.parametrize(("limit", "longest", "time"), [
    (0, 0, None), (60, 0, "3"), (259_200, 7200, "120"), (0, 7200, "120"), (60, 7200, "3"),
])  # fmt: skip
def test_the_time_of_slurm_is_longer_than_that_of_the_runner_and_at_most_the_partys(
    commands: Commands, tmp_path: Path, limit: int, longest: int, time: str | None
) -> None:
    cluster = SlurmCluster("p", commands=tmp_path, longest_time=longest)
    cluster.submit(placement(tmp_path, need=Need(time_limit_seconds=limit)))
    asked = [one.removeprefix("--time=") for one in commands.said("sbatch") if one.startswith("--time=")]
    assert asked == ([time] if time else [])


def test_the_environment_of_the_server_does_not_change_what_is_submitted(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SBATCH_PARTITION", "SLURM_JOB_ID", "SECRET_OF_THE_SERVER"):
        monkeypatch.setenv(name, "x")
    SlurmCluster("p", commands=tmp_path).submit(placement(tmp_path))
    names = {line.partition("=")[0] for line in commands.said("sbatch", "env")}
    assert not names & {"SBATCH_PARTITION", "SLURM_JOB_ID", "SECRET_OF_THE_SERVER"}
    assert "PATH" in names


@pytest.mark.parametrize(("script", "taken"), [
    ("echo 1", Taken.ACCEPTED),
    ("kill -9 $$", Taken.IN_DOUBT),
    ("exec sleep 60", Taken.IN_DOUBT),
    ("echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2; exit 1", Taken.REFUSED),
    ("exit 1", Taken.IN_DOUBT),
])  # fmt: skip
def test_an_sbatch_without_an_answer_leaves_it_in_doubt(
    commands: Commands, tmp_path: Path, script: str, taken: Taken
) -> None:
    commands.script("sbatch", script)
    cluster = SlurmCluster("p", commands=tmp_path, command_seconds=60 if taken is not Taken.IN_DOUBT else 1)
    assert cluster.submit(placement(tmp_path)).taken is taken


def test_commands_that_are_not_there_are_named(tmp_path: Path) -> None:
    cluster = SlurmCluster("p", commands=tmp_path / "nowhere")
    answer = cluster.submit(placement(tmp_path))
    assert answer.taken is Taken.REFUSED
    assert "nowhere/sbatch" in answer.text
    with pytest.raises(Unreadable, match="nowhere/squeue"):
        cluster.listing()


def test_one_listing_has_all_jobs_of_the_user_and_no_numbers(commands: Commands, tmp_path: Path) -> None:
    commands.script("squeue", "echo 'RUNNING|1|None|p-w|/jobs/w'")
    [found] = SlurmCluster("p-", commands=tmp_path).listing()
    assert found.name == "p-w"
    assert commands.said("squeue") == [
        "--noheader", "--states=all", f"--user={os.getuid()}", "--format=%T|%D|%r|%j|%k"
    ]


@pytest.mark.parametrize("script", [
    "exit 1", "echo 'RUNNING|1|None|p-w|/jobs/w'; kill -9 $$", "exec sleep 60",
    "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
    "echo 'RUNNING|1|None|p-w|/jobs/w'; echo 'squeue: error: part of it' >&2",
])  # fmt: skip
def test_a_squeue_that_failed_is_no_listing(commands: Commands, tmp_path: Path, script: str) -> None:
    commands.script("squeue", script)
    with pytest.raises(Unreadable):
        SlurmCluster("p-", commands=tmp_path, command_seconds=1).listing()


def test_jobs_are_cancelled_by_name_and_user(commands: Commands, tmp_path: Path) -> None:
    cluster = SlurmCluster("p-", commands=tmp_path)
    cluster.cancel("p-w")
    assert commands.said("scancel") == ["--quiet", f"--user={os.getuid()}", "--name=p-w"]
    cluster.signal("p-w")
    assert commands.said("scancel") == ["--quiet", f"--user={os.getuid()}", "--batch", "--signal=TERM", "--name=p-w"]
