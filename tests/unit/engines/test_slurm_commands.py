"""What is said to sbatch, squeue and scancel, and what becomes of their ends."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fate_flow.core.model.resources import Need
from fate_flow.engines.placed.cluster import Placement, Stage, Taken, Unreadable
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
        "--job-name=fate-flow-x-w", f"--comment={folder}", f"--output={folder}/cluster.out",
        "--parsable", "--no-requeue", "--open-mode=append", "--chdir=/", "--export=ALL", "--nodes=1", "--ntasks=1",
        "--cpus-per-task=3",
        "--signal=B:USR1@10", "--partition=long", "--account=bank", "--qos=high", "--constraint=gpu80", "--mem=2048M",
        "--gres=gpu:2", "--time=62",
    ]  # fmt: skip
    assert commands.said("sbatch", "stdin") == ["#!/bin/sh", f"exec python -m 'a module' '{folder}'"]


def test_a_secret_is_in_the_environment_of_the_job_alone(commands: Commands, tmp_path: Path) -> None:
    """Slurm shows the command line of a process, the comment, and the script to others, or to programs of this user."""
    cluster = SlurmCluster("p-", commands=tmp_path)
    cluster.submit(placement(tmp_path / "w", secrets={"TOKEN": "hidden"}))
    assert "TOKEN=hidden" in commands.said("sbatch", "env")
    assert "hidden" not in str([commands.said("sbatch", what) for what in ("argv", "stdin")])
    assert "hidden" not in repr(placement(tmp_path, secrets={"TOKEN": "hidden"}))


def test_each_element_of_an_array_has_its_own_secret_and_no_other(commands: Commands, tmp_path: Path) -> None:
    folders = [tmp_path / "jobs" / f"w{number}" for number in range(11)]
    folders[0].parent.mkdir()
    cluster = SlurmCluster("p-", commands=tmp_path)
    assert cluster.submit_together([
        placement(one, argv=("env",), secrets={"TOKEN": f"of {one.name}"}) for one in folders
    ]).taken is Taken.ACCEPTED  # fmt: skip
    script, env = "\n".join(commands.said("sbatch", "stdin")), commands.said("sbatch", "env")
    assert "of w" not in script + "".join(commands.said("sbatch"))
    given = dict(line.split("=", 1) for line in env if line.startswith("TOKEN_"))
    assert len(given) == 11
    for number in (0, 1, 10):
        done = subprocess.run(
            ["/bin/sh", "-c", script], env={**given, "SLURM_ARRAY_TASK_ID": str(number), "PATH": os.environ["PATH"]},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert [one for one in done.stdout.splitlines() if "TOKEN" in one] == [f"TOKEN=of w{number}"]


def test_where_nodes_have_no_home_slurm_prints_to_a_file_of_the_node(commands: Commands, tmp_path: Path) -> None:
    folders = [tmp_path / "jobs" / name for name in ("a", "b")]
    folders[0].parent.mkdir()
    cluster = SlurmCluster("p-", commands=tmp_path, scratch=Path("/local"))
    cluster.submit(placement(folders[0], name="p-a"))
    assert "--output=/local/p-a.out" in commands.said("sbatch")
    cluster.submit_together([placement(one) for one in folders])
    [array] = (one.name for one in (tmp_path / "jobs").iterdir())
    assert f"--output=/local/p-{array}-%a.out" in commands.said("sbatch")


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
    commands.script("squeue", "echo 'RUNNING|1|None|7|p-w|/jobs/w'")
    [found] = SlurmCluster("p-", commands=tmp_path).listing()
    assert found.name == "p-w"
    assert commands.said("squeue") == [
        "--noheader", "--array", "--states=all", f"--user={os.getuid()}", "--format=%T|%D|%r|%i|%j|%k"
    ]


@pytest.mark.parametrize("script", [
    "exit 1", "echo 'RUNNING|1|None|7|p-w|/jobs/w'; kill -9 $$", "exec sleep 60",
    "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
    "echo 'RUNNING|1|None|7|p-w|/jobs/w'; echo 'squeue: error: part of it' >&2",
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
    assert commands.said("scancel") == ["--quiet", "--batch", "--signal=TERM", f"--user={os.getuid()}", "--name=p-w"]


# arrays


def together(commands: Commands, count: int, ends: str = "echo 17") -> tuple[SlurmCluster, list[Placement], Path]:
    """A cluster to which so many were submitted at once, these, and what the comment of their array says."""
    commands.script("sbatch", ends)
    cluster = SlurmCluster("p-", commands=commands.folder)
    some = [
        placement(commands.folder / "jobs" / f"w {number}", name=f"p-w {number}", argv=("run", f"w {number}"))
        for number in range(count)
    ]
    for one in some:
        one.folder.mkdir(parents=True, exist_ok=True)
    assert cluster.submit_together(some).taken is Taken.ACCEPTED
    return cluster, some, Path(value_of(commands.said("sbatch"), "comment"))


def value_of(options: list[str], name: str) -> str:
    [value] = [one.removeprefix(f"--{name}=") for one in options if one.startswith(f"--{name}=")]
    return value


def elements(folder: Path, *states: str, number: int = 17) -> str:
    """What squeue prints of the elements of an array."""
    return "\n".join(f"{one}|1|None|{number}_{at}|p-{folder.name}|{folder}" for at, one in enumerate(states))


def list_elements(commands: Commands, text: str) -> None:
    (commands.folder / "listing").write_text(f"{text}\n")
    commands.script("squeue", f"cat '{commands.folder}/listing'")


def test_several_are_one_array_whose_elements_execute_what_each_has_to(commands: Commands) -> None:
    _, some, folder = together(commands, 3)
    said = commands.said("sbatch")
    assert value_of(said, "array") == "0-2"
    assert value_of(said, "job-name") == f"p-{folder.name}"
    output = value_of(said, "output")
    for number, one in enumerate(some):
        assert Path(output.replace("%a", str(number))).parent.resolve() == one.folder
        script = "\n".join(commands.said("sbatch", "stdin")).replace("exec run", "echo run")
        done = subprocess.run(
            ["sh"], input=script, env={"SLURM_ARRAY_TASK_ID": str(number)}, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"run w {number}\n"


def test_an_element_is_listed_as_its_worker_by_any_process(commands: Commands) -> None:
    _, some, folder = together(commands, 3)
    list_elements(commands, elements(folder, "RUNNING", "PENDING", "TIMEOUT"))
    found = SlurmCluster("p-", commands=commands.folder).listing()
    assert [(one.name, one.folder) for one in found] == [(one.name, str(one.folder)) for one in some]
    assert [(one.stage, one.cause) for one in found] == [
        (Stage.ALIVE, ""), (Stage.PENDING, ""), (Stage.ENDED, "timeout")
    ]


def test_one_element_is_signalled_and_cancelled_by_its_number_and_the_name_of_its_array(commands: Commands) -> None:
    cluster, some, folder = together(commands, 2)
    list_elements(commands, elements(folder, "RUNNING", "RUNNING"))
    named = [f"--user={os.getuid()}", f"--name=p-{folder.name}"]
    cluster.signal(some[1].name)       # which it has not listed before
    assert commands.said("scancel") == ["--quiet", "--batch", "--signal=TERM", *named, "17_1"]
    cluster.cancel(some[0].name)
    assert commands.said("scancel") == ["--quiet", *named, "17_0"]
    list_elements(commands, elements(folder, "RUNNING", number=9))
    cluster.listing()
    cluster.cancel(some[0].name)
    assert commands.said("scancel")[-1] == "9_0", "of the last listing"


@pytest.mark.parametrize("ends", ["true", "exit 1"])
def test_workers_that_slurm_does_not_list_are_looked_for_once_however_many_stop(commands: Commands, ends: str) -> None:
    cluster, _, _ = together(commands, 2)
    count = f'echo >> "{commands.folder}/looks"; {ends}'
    commands.script("squeue", count)
    for number in range(3):
        cluster.signal(f"p-gone-{number}")
    assert (commands.folder / "looks").read_text() == "\n"
    cluster.submit(placement(commands.folder))
    cluster.signal("p-gone-0")
    assert (commands.folder / "looks").read_text() == "\n\n", "one that came meanwhile may be listed"


def test_an_element_that_waits_is_cancelled_without_a_filter_which_would_take_all_that_wait(commands: Commands) -> None:
    cluster, some, folder = together(commands, 3)
    list_elements(commands, elements(folder, "RUNNING", "PENDING", "PENDING"))
    cluster.listing()
    cluster.cancel(some[1].name)
    assert commands.said("scancel") == ["--quiet", "17_1"]


def test_elements_that_were_cancelled_before_they_began_have_one_record(commands: Commands) -> None:
    _, some, folder = together(commands, 3)
    record = f"CANCELLED|1|None|17|p-{folder.name}|{folder}"
    list_elements(commands, f"{record}\n{elements(folder, 'RUNNING')}")
    cluster = SlurmCluster("p-", commands=commands.folder)
    found = {one.name: one for one in cluster.listing()}
    assert {name: one.stage for name, one in found.items()} == {
        some[0].name: Stage.ALIVE, some[1].name: Stage.ENDED, some[2].name: Stage.ENDED
    }  # fmt: skip
    assert found[some[2].name].folder == str(some[2].folder)
    shutil.rmtree(folder)
    list_elements(commands, record)
    assert cluster.listing() == ()


def test_an_array_whose_list_was_removed_is_cancelled_as_a_whole(commands: Commands) -> None:
    cluster, _, folder = together(commands, 2)
    shutil.rmtree(folder)
    list_elements(commands, elements(folder, "PENDING", "RUNNING"))
    assert {(one.name, one.folder) for one in cluster.listing()} == {(f"p-{folder.name}", str(folder))}
    cluster.cancel(f"p-{folder.name}")
    assert commands.said("scancel") == ["--quiet", f"--user={os.getuid()}", f"--name=p-{folder.name}"]


def test_an_element_that_is_not_in_its_list_decides_nothing(commands: Commands) -> None:
    cluster, some, folder = together(commands, 1)
    (folder / "1").symlink_to("../../elsewhere")
    list_elements(commands, elements(folder, "RUNNING", "RUNNING", "RUNNING"))
    first, *others = cluster.listing()
    assert first.name == some[0].name
    assert {one.stage for one in others} == {Stage.UNKNOWN}


def test_a_list_that_cannot_be_read_is_no_listing(commands: Commands) -> None:
    _, _, folder = together(commands, 1)
    (folder / "0").unlink()
    (folder / "0").mkdir()             # no link
    list_elements(commands, elements(folder, "RUNNING"))
    with pytest.raises(Unreadable, match=r"the list of an array cannot be read: .*array-"):
        SlurmCluster("p-", commands=commands.folder).listing()


@pytest.mark.parametrize(("said", "taken", "is_kept"), [
    ("Unable to contact slurm controller (connect failure)", Taken.NOT_REACHED, False),
    ("Invalid partition name specified", Taken.REFUSED, False),
    ("Socket timed out on send/recv operation", Taken.IN_DOUBT, True),
])  # fmt: skip
def test_the_list_stays_as_long_as_slurm_may_have_the_array(
    commands: Commands, said: str, taken: Taken, is_kept: bool
) -> None:
    cluster, some, first = together(commands, 2)
    commands.script("sbatch", f"echo 'sbatch: error: Batch job submission failed: {said}' >&2; exit 1")
    assert cluster.submit_together(some).taken is taken
    assert [one != first for one in first.parent.glob("array-*") if one != first] == [True] * is_kept


def test_more_than_slurm_takes_are_not_asked_for_again(commands: Commands) -> None:
    cluster, some, folder = together(commands, 4)
    commands.script("sbatch", "echo 'sbatch: error: Invalid job array specification' >&2; exit 1")
    assert cluster.submit_together(some).taken is Taken.TOO_MANY
    commands.script("sbatch", "echo 1")
    for one in commands.folder.glob("sbatch.*"):
        one.unlink()
    assert cluster.submit_together(some).taken is Taken.TOO_MANY
    assert not list(commands.folder.glob("sbatch.*"))
    assert cluster.submit_together(some[:3]).taken is Taken.ACCEPTED
    assert len(list(folder.parent.glob("array-*"))) == 2


def test_without_links_each_is_a_job_of_its_own(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, some, folder = together(commands, 2)

    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuses)
    assert cluster.submit_together(some).taken is Taken.TOO_MANY
    assert list(folder.parent.glob("array-*")) == [folder]
