"""How much of a disk stays free: below that, this party takes nothing new."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True)
class LeastFree:
    """What has to stay free: so many bytes, or a share of the disk. With neither, the lesser of 1 GiB and 5 %: enough
    for what still runs to end and be recorded, and no more than a small disk can spare."""

    amount: int | None = None        # bytes; 0: nothing has to stay free
    share: float | None = None

    def of(self, total: int) -> int:
        """Return the bytes that have to stay free of a disk with so many."""
        if self.amount is not None:
            return self.amount
        if self.share is not None:
            return int(self.share * total)
        return min(1 << 30, total // 20)


@dataclass(frozen=True)
class DiskSpace:
    """The state of the disk with a party's home, in bytes; or of another one that the server writes to, if it is short
    of space."""

    free: int
    least: int                       # that has to stay free; 0: nothing
    total: int = 0                   # of the whole disk with the home; 0: not known
    folder: str = ""                 # on the other disk; empty: it is that of the home

    def is_short(self, incoming: int = 0) -> bool:
        """Return whether less would be left than has to be, once so many more bytes have come."""
        return bool(self.least) and self.free - incoming < self.least

    def text_for_clients(self, own: str, incoming: int = 0) -> str:
        """Return why party `own` takes nothing new, for its own people."""
        more = f" and {_size(incoming)} would come" if incoming else ""
        disk = f"the disk with {self.folder}" if self.folder else "its disk"
        place = "that disk" if self.folder else "the disk with its home"
        return (
            f"party {own} takes nothing new: {disk} has {_size(self.free)} free{more}, and {_size(self.least)} have to "
            f"stay free (limits.least_free_disk). Free some space on {place}; what runs goes on, and stop, delete and "
            "all queries work"
        )


def text_for_parties(own: str) -> str:
    """Return why party `own` takes nothing new, for others, who learn no sizes."""
    return (
        f"party {own} takes nothing new now: its disk is nearly full (limits.least_free_disk, which only an operator "
        f"of party {own} can change). Try again later"
    )


def _size(count: int) -> str:
    return f"{count} bytes" if count < _MIB else f"{count // _MIB} MiB"
