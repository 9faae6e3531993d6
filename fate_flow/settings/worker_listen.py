"""The listener for workers of this party on other hosts, in the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import Section, collected, split_url


@dataclass(frozen=True)
class WorkerListen:
    """Where workers on other hosts reach this server."""

    host: str
    port: int
    address: str             # HOST:PORT under which they reach it


def read_worker_listen(section: Section) -> WorkerListen | None:
    """Return the listener; None if its port is not set."""
    host, port = section.text("host", "0.0.0.0"), section.whole("port", 0, 0, 65535)  # noqa: S104  # it speaks TLS
    address = section.text("address")
    section.refuse_others()
    if not port:
        return None
    return _checked(section, WorkerListen(host, port, address))


@collected
def _checked(section: Section, found: WorkerListen) -> WorkerListen:
    try:
        is_everywhere = ip_address(found.host).is_unspecified
    except ValueError as error:
        raise BadSettings(f"{section.name('host')}: {found.host!r} is not an IP address") from error
    if not found.address and is_everywhere:
        raise BadSettings(
            f"{section.name('address')}: is not set, and {section.name('host')} {found.host} is no address that a "
            "worker on another host can connect to: set HOST:PORT of this server as those hosts see it"
        )
    host = f"[{found.host}]" if ":" in found.host else found.host
    address = found.address or f"{host}:{found.port}"
    parts = split_url(f"//{address}", section.name("address"))
    if not parts.hostname or parts.port is None or parts.netloc != address or "@" in address:
        raise BadSettings(f"{section.name('address')}: {address!r} is not HOST:PORT, such as flow.example.com:9390")
    return WorkerListen(found.host, found.port, address)
