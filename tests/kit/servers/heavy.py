"""Examples of frameworks at servers of parties: submitted as they are, and what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.servers.party_servers import Cluster, PartyServer
from tests.kit.servers.programs import printed
from tests.kit.waiting import eventually

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def submitted(cluster: Cluster, text: str) -> str:
    """The id of the job of this job file. Parties that have just started may not have met each other yet."""
    answer: dict[str, object] = {}

    def is_accepted() -> bool:
        answer.update(cluster.guest.post("job/submit", {"job_file": text}))
        return answer["retcode"] == 0

    eventually(is_accepted, lambda: str(answer))
    return str(answer["jobId"])


def succeeded(cluster: Cluster, job_id: str, seconds: float = 300.0, task: str = "train") -> None:
    """Wait until the job has succeeded at every party. Frameworks say in their output alone why they fail."""
    try:
        cluster.wait(job_id, "success", seconds=seconds)
    except pytest.fail.Exception as failure:
        here = {name: party for name, party in cluster.parties.items() if party.tasks(job_id, task)}
        said = [
            f"{name}:\n{printed(party, job_id, 'stderr', component_name=task)[-3000:]}" for name, party in here.items()
        ]
        pytest.fail("\n".join([str(failure), *said]))


def output(party: PartyServer, job_id: str, name: str, folder: Path) -> str:
    """The text of an output of the task `train`."""
    file = folder / name
    party.flow("task", "output", "-j", job_id, "-cpn", "train", "-n", name, "-o", file)
    return file.read_text(encoding="utf-8")
