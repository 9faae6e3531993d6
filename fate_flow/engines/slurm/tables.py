"""The words of Slurm: states and reasons of its listing, errors of its commands, notes in the output of a job.

Each is a table. A state that is not in it is unknown, and decides nothing; an error that is not in it leaves in doubt
whether the job was submitted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fate_flow.engines.placed.cluster import Stage, Submission, Taken, Waiting

TITLE = "Slurm"

STATES: Mapping[str, tuple[Stage, str]] = {
    "PENDING": (Stage.PENDING, ""),
    "CONFIGURING": (Stage.ALIVE, ""),
    "RUNNING": (Stage.ALIVE, ""),
    "COMPLETING": (Stage.ALIVE, ""),
    "SIGNALING": (Stage.ALIVE, ""),
    "STAGE_OUT": (Stage.ALIVE, ""),
    "STOPPED": (Stage.ALIVE, ""),
    "SUSPENDED": (Stage.ALIVE, ""),
    "RESIZING": (Stage.ALIVE, ""),
    "REQUEUED": (Stage.PENDING, ""),
    "REQUEUE_FED": (Stage.PENDING, ""),
    "REQUEUE_HOLD": (Stage.PENDING, ""),
    "SPECIAL_EXIT": (Stage.PENDING, ""),
    "RESV_DEL_HOLD": (Stage.PENDING, ""),
    "COMPLETED": (Stage.ENDED, ""),
    "FAILED": (Stage.ENDED, ""),
    "CANCELLED": (Stage.ENDED, ""),
    "REVOKED": (Stage.ENDED, ""),
    "BOOT_FAIL": (Stage.ENDED, "node_lost"),
    "NODE_FAIL": (Stage.ENDED, "node_lost"),
    "DEADLINE": (Stage.ENDED, "timeout"),
    "TIMEOUT": (Stage.ENDED, "timeout"),
    "OUT_OF_MEMORY": (Stage.ENDED, "out_of_memory"),
    "PREEMPTED": (Stage.ENDED, "preempted"),
}
"""How far a job in this state is, and the cause of an end that is not the job's own."""

_SENTENCES: Mapping[str, tuple[str, str]] = {
    "resources": ("", "squeue --start there says when it may begin"),
    "priority": ("behind other jobs", "sprio there says what comes first, squeue --start when it may begin"),
    "limit": ("for a limit of the account", "ask the operator of the cluster, or wait until other jobs have ended"),
    "held": ("while it is held", "release it: scontrol release"),
    "nodes": ("for nodes that are not there", "ask the operator of the cluster: sinfo -R says why they are away"),
    "never": ("for what no node of it can give", "change the needs of the job, or the engine's section"),
    "begin": ("for its time", "it has a time, a reservation or a dependency there: scontrol show job says which"),
    "failed": ("after a launch that failed", "ask the operator of the cluster: the node could not start it"),
    "other": ("", "ask the operator of the cluster what this means"),
}
"""What people read of each kind of waiting, and what to do about it."""

_KINDS: Mapping[str, str] = {
    "Resources": "resources",
    "None": "resources",
    "Priority": "priority",
    "BeginTime": "begin",
    "Reservation": "begin",
    "Licenses": "limit",
    "JobHeldUser": "held",
    "JobHeldAdmin": "held",
    "Dependency": "begin",
    "DependencyNeverSatisfied": "never",
    "BadConstraints": "never",
    "PartitionNodeLimit": "never",
    "PartitionTimeLimit": "never",
    "PartitionConfig": "never",
    "AccountNotAllowed": "never",
    "InvalidAccount": "never",
    "InvalidQOS": "never",
    "NodeDown": "nodes",
    "Nodes": "nodes",          # "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority ..."
    "PartitionDown": "nodes",
    "PartitionInactive": "nodes",
    "ReqNodeNotAvail": "nodes",
    "ReservationDeleted": "held",
    "JobArrayTaskLimit": "limit",
    "MaxJobsPerAccount": "limit",
    "MaxSubmitJobsPerAccount": "limit",
    "JobLaunchFailure": "failed",
    "launch_failed_requeued_held": "failed",
}

_LIMIT = re.compile(r"(Assoc|QOS|Association|QOSMax|AssocGrp|AssocMax)\w*(Limit|Max|Grp|Minutes)\w*")

_ERRORS: tuple[tuple[str, Taken], ...] = (
    ("Unable to contact slurm controller (connect failure)", Taken.NOT_REACHED),
    ("Unable to contact slurm controller", Taken.IN_DOUBT),
    ("Socket timed out", Taken.IN_DOUBT),
    ("Zero Bytes were transmitted or received", Taken.IN_DOUBT),
    ("Transport endpoint is not connected", Taken.IN_DOUBT),
    ("Unexpected message received", Taken.IN_DOUBT),
    ("Invalid job array specification", Taken.TOO_MANY),      # longer than MaxArraySize, or there are no arrays
    ("Slurm backup controller in standby mode", Taken.NOT_REACHED),
    ("Resource temporarily unavailable", Taken.NOT_REACHED),
    ("Job violates accounting/QOS policy", Taken.REFUSED),
    ("Invalid partition name specified", Taken.REFUSED),
    ("Invalid account or account/partition combination", Taken.REFUSED),
    ("Invalid qos specification", Taken.REFUSED),
    ("Invalid feature specification", Taken.REFUSED),
    ("Invalid generic resource (gres) specification", Taken.REFUSED),
    ("Invalid constraint", Taken.REFUSED),
    ("Requested node configuration is not available", Taken.REFUSED),
    ("Memory required by task is not available", Taken.REFUSED),
    ("More processors requested than permitted", Taken.REFUSED),
    ("CPU count per node can not be satisfied", Taken.REFUSED),
    ("Node count specification invalid", Taken.REFUSED),
    ("Requested time limit is invalid", Taken.REFUSED),
    ("Time limit specification required", Taken.REFUSED),
    ("Requested partition configuration not available now", Taken.REFUSED),
    ("User's group not permitted to use this partition", Taken.REFUSED),
    ("User not permitted to use", Taken.REFUSED),
    ("Access/permission denied", Taken.REFUSED),
    ("Pathname of a file, directory or other parameter too long", Taken.REFUSED),
    ("Unspecified error", Taken.IN_DOUBT),
    ("unrecognized option", Taken.REFUSED),
    ("invalid option", Taken.REFUSED),
)
"""What sbatch says, and what it means. The first that fits counts."""

_NOTES: tuple[tuple[str, str, str], ...] = (
    ("memory limit", "out_of_memory", "Slurm: it used more memory than it may"),
    ("oom_kill", "out_of_memory", "Slurm: it used more memory than it may"),
    ("oom-kill", "out_of_memory", "Slurm: it used more memory than it may"),
    ("DUE TO TIME LIMIT", "timeout", "Slurm: its time is over"),
    ("DUE TO PREEMPTION", "preempted", "Slurm: another job took its place"),
    ("DUE TO NODE FAILURE", "node_lost", "Slurm: its node failed"),
)
"""What slurmstepd writes into the output of a job that it ends."""


def waiting_of(reason: str, nodes: str) -> Waiting:
    """Return why a pending job waits. `reason`: a word of Slurm, perhaps with more behind it."""
    word = reason.strip("() ").partition(",")[0].partition(" ")[0]
    kind = _KINDS.get(word, "limit" if _LIMIT.fullmatch(word) else "other")
    sentence, advice = _SENTENCES[kind]
    if kind in ("resources", "other"):
        sentence = f"for {nodes} node{'' if nodes == '1' else 's'}" if nodes.isdecimal() else "for nodes"
    # Names of nodes, which follow the word, are the party's own: other parties read this, too.
    said = reason.strip("() ").partition(",")[0] or "no reason given"
    return Waiting(kind, f"waits in {TITLE} {sentence}: {said}", advice)


def refusal_of(said: str) -> Submission:
    """Return what an sbatch that failed has said. Words that we do not know leave it in doubt."""
    line = next((one for one in said.splitlines() if "error" in one.lower() or ":" in one), said).strip()
    text = line.removeprefix("sbatch: ").removeprefix("error: ").removeprefix("Batch job submission failed: ")[:300]
    for phrase, taken in _ERRORS:
        if phrase.lower() in said.lower():
            return Submission(taken, text)
    return Submission(Taken.IN_DOUBT, text or "sbatch said nothing")


def cause_noted(output: str) -> tuple[str, str]:
    """Return cause and sentence of an end that slurmstepd has noted; empty if there is none."""
    lines = [line for line in output.splitlines() if line.startswith("slurmstepd")]
    for phrase, cause, text in _NOTES:
        if any(phrase in line for line in lines):
            return cause, text
    return "", ""
