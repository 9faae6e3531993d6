"""The words of Slurm, as its commands print them: recorded from 20.11 and 22.05, and from their manuals."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.engines.placed.cluster import Stage, Taken
from fate_flow.engines.slurm.cluster import read_listing
from fate_flow.engines.slurm.tables import _KINDS, _SENTENCES, STATES, cause_noted, refusal_of, waiting_of

PREFIX = "fate-flow-0a1b2c3d4e5f-"


def listed(state: str, reason: str = "None", nodes: str = "1"):
    [(_, found)] = read_listing(f"{state}|{nodes}|{reason}|7|{PREFIX}w1|/home/p/jobs/j/w1\n", PREFIX)
    return found


@pytest.mark.parametrize(("state", "stage", "cause"), [
    ("PENDING", Stage.PENDING, ""), ("CONFIGURING", Stage.ALIVE, ""), ("RUNNING", Stage.ALIVE, ""),
    ("COMPLETING", Stage.ALIVE, ""), ("SUSPENDED", Stage.ALIVE, ""), ("COMPLETED", Stage.ENDED, ""),
    ("FAILED", Stage.ENDED, ""), ("CANCELLED", Stage.ENDED, ""), ("TIMEOUT", Stage.ENDED, "timeout"),
    ("NODE_FAIL", Stage.ENDED, "node_lost"), ("BOOT_FAIL", Stage.ENDED, "node_lost"),
    ("OUT_OF_MEMORY", Stage.ENDED, "out_of_memory"), ("PREEMPTED", Stage.ENDED, "preempted"),
    ("RD", Stage.UNKNOWN, ""), ("EXPEDITING", Stage.UNKNOWN, ""), ("", Stage.UNKNOWN, ""),
])  # fmt: skip
def test_each_state_is_a_stage_and_a_word_that_we_do_not_know_is_unknown(state: str, stage: Stage, cause: str) -> None:
    found = listed(state)
    assert (found.stage, found.cause) == (stage, cause)


def test_a_pending_state_alone_waits() -> None:
    assert [state for state in STATES if (listed(state).waiting is None) is (STATES[state][0] is Stage.PENDING)] == []


@pytest.mark.parametrize(("reason", "nodes", "kind", "text"), [
    ("Resources", "2", "resources", "waits in Slurm for 2 nodes: Resources"),
    ("(Resources)", "1", "resources", "waits in Slurm for 1 node: Resources"),
    ("Priority", "1", "priority", "waits in Slurm behind other jobs: Priority"),
    ("QOSMaxCpuPerUserLimit", "1", "limit", "waits in Slurm for a limit of the account: QOSMaxCpuPerUserLimit"),
    ("AssocGrpCPUMinutesLimit", "1", "limit", "waits in Slurm for a limit of the account: AssocGrpCPUMinutesLimit"),
    ("JobHeldUser", "1", "held", "waits in Slurm while it is held: JobHeldUser"),
    ("ReqNodeNotAvail, UnavailableNodes:node[1-2]", "2", "nodes",
     "waits in Slurm for nodes that are not there: ReqNodeNotAvail"),
    ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", "1", "nodes",
     "waits in Slurm for nodes that are not there: Nodes required for job are DOWN"),
    ("PartitionTimeLimit", "1", "never",
     "waits in Slurm for what no node of it can give: PartitionTimeLimit"),
    ("launch failed requeued held", "1", "other", "waits in Slurm for 1 node: launch failed requeued held"),
    ("SomethingNew", "1", "other", "waits in Slurm for 1 node: SomethingNew"),
])  # fmt: skip
def test_people_read_why_a_job_waits(reason: str, nodes: str, kind: str, text: str) -> None:
    found = waiting_of(reason, nodes)
    assert (found.kind, found.text) == (kind, text)
    assert found.advice


def test_there_is_a_sentence_and_advice_for_each_kind() -> None:
    assert {*_KINDS.values(), "limit", "other"} == _SENTENCES.keys()
    assert all(advice for _, advice in _SENTENCES.values())
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "slurm.md").read_text("utf-8")
    waiting = guide.partition("## Waiting in Slurm")[2].partition("## ")[0]
    assert [advice for _, advice in _SENTENCES.values() if advice not in waiting.replace("`", "")] == []


@pytest.mark.parametrize(("said", "taken"), [
    ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
     Taken.NOT_REACHED),
    ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", Taken.IN_DOUBT),
    ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", Taken.IN_DOUBT),
    ("sbatch: error: invalid partition specified: x\n"
     "sbatch: error: Batch job submission failed: Invalid partition name specified", Taken.REFUSED),
    ("sbatch: error: Batch job submission failed: Requested node configuration is not available", Taken.REFUSED),
    ("sbatch: error: Memory specification can not be satisfied\n"
     "sbatch: error: Batch job submission failed: Memory required by task is not available", Taken.REFUSED),
    ("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size "
     "and/or time limits)", Taken.REFUSED),
    ("sbatch: error: Batch job submission failed: Invalid job array specification", Taken.TOO_MANY),
    ("sbatch: error: Batch job submission failed: Something that a later release says", Taken.IN_DOUBT),
    ("Segmentation fault", Taken.IN_DOUBT), ("", Taken.IN_DOUBT),
])  # fmt: skip
def test_only_words_that_we_know_are_an_answer(said: str, taken: Taken) -> None:
    assert refusal_of(said).taken is taken


@pytest.mark.parametrize(("output", "cause"), [
    ("slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT 2026-11-26T22:47:13 DUE TO TIME LIMIT ***", "timeout"),
    ("slurmstepd-node1: error: *** JOB 2 ON node1 CANCELLED AT 2026-11-26T22:47:13 DUE TO PREEMPTION ***",
     "preempted"),
    ("slurmstepd: error: *** JOB 2 ON n CANCELLED AT 2026-11-26T22:47:13 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***",
     "node_lost"),
    ("slurmstepd-node1: error: StepId=2.batch exceeded memory limit (169574400 > 104857600), being killed",
     "out_of_memory"),
    ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.batch. Some of your processes may have been killed "
     "by the cgroup out-of-memory handler.", "out_of_memory"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=5.batch.", "out_of_memory"),
    ("slurmstepd: error: *** JOB 2 ON node1 CANCELLED AT 2026-11-26T22:47:13 ***", ""),
    ("a program that says slurmstepd: error: DUE TO TIME LIMIT", ""), ("", ""),
])  # fmt: skip
def test_what_slurmstepd_notes_in_the_output_of_a_job_explains_its_end(output: str, cause: str) -> None:
    assert cause_noted(f"first line\n{output}\n")[0] == cause


def test_a_listing_has_the_jobs_of_this_home_alone() -> None:
    text = "\n".join((
        "RUNNING|1|None|1|train|(null)", "PENDING|1|Priority|2|fate-flow-000000000000-w9|/x/w9", "garbage", "",
        f"RUNNING|1|None|3_4|{PREFIX}w2|/home/with a | bar/w2",
    ))  # fmt: skip
    [(number, found)] = read_listing(text, PREFIX)
    assert number == "3_4"
    assert (found.name, found.folder, found.word) == (f"{PREFIX}w2", "/home/with a | bar/w2", "RUNNING")
