"""SecretFlow SPU's private set intersection: a process of SPU at each party, which connect to each other.

Each party keeps those of its rows whose id the other one has, too, in the order of the ids.
"""

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

os.environ["TMPDIR"] = "."      # for files of SPU while it works; it gives their paths to a shell, and quotes no blanks

import spu
from spu import psi

sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
from fate_flow.components.gang import join
from fate_flow.components.metrics import reporter


def connected(gang):
    """Return SPU's link between the parties: each listens at an address of its own and connects to each other one."""
    for rank in range(gang.size):             # SPU gives up a party that has not answered after some seconds
        if rank != gang.rank:
            gang.send(rank, b"ready")
    for rank in range(gang.size):
        if rank != gang.rank:
            gang.receive(rank)
    parties = spu.link.Desc()
    parties.recv_timeout_ms = 60_000          # SPU's link can hang for ever; then the task begins anew (job.yaml)
    for rank, party in enumerate(gang.parties):
        name = f"{party.role}_{party.party_id}".upper()
        place = "FATE_FLOW_LISTEN_SPU" if rank == gang.rank else f"FATE_FLOW_PORT_SPU_{name}"
        parties.add_party(name, os.environ[place])
    return spu.link.create_brpc(parties, gang.rank)


def remove_traces(since: float) -> None:
    """SPU leaves a file with its timings in /tmp, wherever TMPDIR is, and has no option for its place."""
    for trace in Path("/tmp").glob("psi_*.trace"):
        with suppress(OSError):
            if trace.stat().st_uid == os.getuid() and trace.stat().st_mtime >= since:
                trace.unlink()


def main() -> None:
    rows = shutil.copy(Path(os.environ["FATE_FLOW_VOLUME_ROWS"], "rows.csv"), Path.cwd())       # SPU writes beside it
    link = connected(join())
    found = psi.psi_execute(
        psi.PsiExecuteConfig(
            psi.PsiProtocolConfig(
                protocol=psi.PsiProtocol.PROTOCOL_ECDH, broadcast_result=True,
                ecdh_params=psi.EcdhParams(psi.EllipticCurveType.CURVE_25519),
            ),
            psi.InputParams(path=str(rows), selected_keys=[os.environ["KEY"]], keys_unique=True),
            psi.OutputParams(path=str(Path.cwd() / "common.csv")),
        ),
        link,
    )  # fmt: skip
    link.stop_link()
    counts = {"rows": found.original_count, "common": found.intersection_count}
    reporter().report("psi", counts)
    print(counts)


if __name__ == "__main__":
    begun = time.time()
    try:
        main()
    finally:
        remove_traces(begun)
