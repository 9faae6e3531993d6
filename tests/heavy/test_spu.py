"""SecretFlow's SPU as it comes: each party learns which ids both have, as two lists in one place would tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.kit.servers.heavy import EXAMPLES, submitted, succeeded
from tests.kit.servers.party_servers import GUEST, HOST, Cluster
from tests.kit.servers.programs import printed

pytestmark = pytest.mark.timeout(900)

EVERYBODY = [f"customer {number}" for number in range(3000)]
OWN = {GUEST: EVERYBODY[:2000], HOST: EVERYBODY[1200:]}
SEATS = {GUEST: "guest", HOST: "host"}


def test_the_parties_learn_what_they_have_in_common(
    python_of: Callable[[str], Path], parties: Cluster, rows: Callable[[str, str], None],
    install: Callable[[str, Path], None], nothing_is_left: Callable[[Path], None], tmp_path: Path,
) -> None:  # fmt: skip
    spu, chance = python_of("spu"), Random(16)
    install("spu-python", spu)
    lines: dict[str, dict[str, str]] = {}
    for party_id, ids in OWN.items():
        lines[party_id] = {one: f"{one},{chance.random():.6f}" for one in chance.sample(ids, len(ids))}
        rows(party_id, "\n".join(["id,x", *lines[party_id].values(), ""]))
    job_id = submitted(parties, (EXAMPLES / "spu_psi" / "job.yaml").read_text(encoding="utf-8"))
    succeeded(parties, job_id, task="psi")
    common = sorted(set(OWN[GUEST]) & set(OWN[HOST]))
    for party_id, role in SEATS.items():
        party, seat = parties.parties[party_id], ("-j", job_id, "-r", role, "-p", party_id, "-cpn", "psi")
        party.flow("component", "output-data", *seat, "-o", tmp_path)
        [table] = tmp_path.glob(f"*{role}_{party_id}_output_data/common.csv")
        header, *found = table.read_text(encoding="utf-8").splitlines()
        assert header == "id,x"
        assert sorted(found) == [lines[party_id][one] for one in common], "its own rows, and no other value"
        counts = {"rows": len(OWN[party_id]), "common": len(common)}
        assert f"{counts}\n" in printed(party, job_id, component_name="psi")
        said = party.ask("tracking/component/metric/all", {
            "job_id": job_id, "role": role, "party_id": party_id, "component_name": "psi",
        })["default"]["psi"]  # fmt: skip
        assert dict(said["data"]) == counts
    nothing_is_left(spu)
