"""Where the workers of an attempt listen and connect: loopback addresses that no other attempt has.

An address follows from the attempt alone. So whoever needs it computes it, and nothing has to be stored, also after
the server was killed. A machine has 2**22 such addresses, and ports from a number that follows from the attempt too:
two attempts do not get the same ones by chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party, Port

_FIRST_PORT, _PORTS = 10_000, 20_000          # below those that a kernel gives to clients


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Listens:
    """A worker of this party listens here; workers of these parties reach it."""

    name: str
    address: Address
    callers: tuple[Party, ...]


@dataclass(frozen=True)
class Connects:
    """A worker of this party connects here, to reach a worker of the other party."""

    name: str
    address: Address
    to: Party


@dataclass(frozen=True)
class StreamEnds:
    """The ends of all streams at one party of an attempt."""

    listens: tuple[Listens, ...] = ()
    connects: tuple[Connects, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.listens or self.connects)


NO_STREAMS = StreamEnds()


def ends_of(
    ports: Collection[Port], key: TaskKey, incarnation: str, without: Collection[str] = ()
) -> StreamEnds:  # fmt: skip
    """Return the ends of all streams at one party of this attempt. `without`: parties that are missing from it."""
    numbers = _addresses(key, incarnation)
    listens, connects = [], []
    for port in ports:
        if callers := tuple(one for one in port.callers_of(key.party) if str(one) not in without):
            listens.append(Listens(port.name, next(numbers), callers))
        for other in port.called_by(key.party):
            address = next(numbers)          # also for a missing party: the others keep theirs
            if str(other) not in without:
                connects.append(Connects(port.name, address, other))
    return StreamEnds(tuple(listens), tuple(connects))


def _addresses(key: TaskKey, incarnation: str) -> Iterator[Address]:
    text = f"{key.job_id} {key.task_id} {key.version} {incarnation} {key.party}"
    digest = hashlib.sha256(text.encode()).digest()
    host = f"127.{64 + digest[0] % 64}.{digest[1]}.{1 + digest[2] % 254}"
    first = int.from_bytes(digest[3:7], "big") % _PORTS
    for number in range(_PORTS):
        yield Address(host, _FIRST_PORT + (first + number) % _PORTS)


def environment_of(ends: StreamEnds) -> dict[str, str]:
    """Return the variables with the addresses, as `host:port`.

    `FATE_FLOW_LISTEN_<NAME>` is where a worker has to listen. `FATE_FLOW_PORT_<NAME>_<ROLE>_<PARTY ID>` is where it
    reaches a worker of that party; if there is only one such party, `FATE_FLOW_PORT_<NAME>` is the same."""
    found = {f"FATE_FLOW_LISTEN_{one.name.upper()}": str(one.address) for one in ends.listens}
    for one in ends.connects:
        variable = f"FATE_FLOW_PORT_{one.name.upper()}"
        found[f"{variable}_{one.to.role.upper()}_{one.to.party_id}"] = str(one.address)
        if sum(other.name == one.name for other in ends.connects) == 1:
            found[variable] = str(one.address)
    return found
