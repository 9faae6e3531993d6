"""A placed worker for which its cluster keeps a place until the server lets it begin, as Kueue does."""

from __future__ import annotations

from pathlib import Path

from fate_flow.engines.local.worker import ARRIVED, CLAIMED, GO, LAUNCH, read_json, write_atomically


def may_begin(folder: Path, *, is_reserved: bool) -> bool:
    """Note whether a place is kept for a worker that no runner has claimed; return whether it may begin there now.

    The place of a worker of a gang counts as its arrival. A place that the cluster has taken back is none."""
    order = read_json(folder / LAUNCH) or {}
    if order.get("gather_seconds") is None or (folder / GO).exists():
        return is_reserved
    if is_reserved and not (folder / ARRIVED).exists():
        write_atomically(folder / ARRIVED, "", is_durable=False)
    elif not is_reserved and not (folder / CLAIMED).exists():
        (folder / ARRIVED).unlink(missing_ok=True)
    return False
