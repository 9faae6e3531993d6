"""Checks of hosts and certificates in the configuration."""

from __future__ import annotations

import re
from ipaddress import ip_address
from ssl import SSLError, create_default_context

from fate_flow.core.model.errors import BadSettings

_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63}){0,15}\.?")


def read_host_names(listed: object, name: str) -> frozenset[str]:
    """Return the host names. Raise BadSettings for anything but a list of names without ports."""
    if not isinstance(listed, list):
        raise BadSettings(f"{name}: {listed!r} is not a list of host names")
    for one in listed:
        if not isinstance(one, str) or not _HOST_NAME.fullmatch(one):
            raise BadSettings(f"{name}: {one!r} is not a host name, such as fate.example.org, without a port")
    return frozenset(listed)


def check_authorities(file: str, scheme: str, name: str) -> None:
    """Raise BadSettings unless the certificates in this file can check the server of a route."""
    if scheme != "https":
        raise BadSettings(f"{name}: the url of this route is not https, so there is no certificate to check")
    try:
        certificates = create_default_context(cafile=file).get_ca_certs()
    except SSLError:
        certificates = []
    except OSError as error:
        raise BadSettings(f"{name}: {file}: cannot be read: {error.strerror}") from error
    if not certificates:
        raise BadSettings(f"{name}: {file}: has no certificate of an authority in PEM")


def is_loopback(host: str) -> bool:
    """Return whether only this machine is at an address. A name other than localhost may be that of any machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
