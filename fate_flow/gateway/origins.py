"""What counts as one address."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

_PREFIX = 64                             # bits of an IPv6 address that one customer has for himself


def origin_of(address: str) -> str:
    """Return what counts as one address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Address(int(found) >> (128 - _PREFIX) << (128 - _PREFIX)))
    return address
