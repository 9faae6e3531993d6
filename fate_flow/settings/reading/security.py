"""Checks of hosts and certificates in the configuration."""

from __future__ import annotations

import re
from ipaddress import ip_address
from ssl import SSLError, create_default_context
from urllib.parse import SplitResult

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import split_url

_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63}){0,15}\.?")


def read_host_names(listed: object, name: str) -> frozenset[str]:
    """Return the host names. Raise BadSettings for anything but a list of names without ports."""
    if not isinstance(listed, list):
        raise BadSettings(f"{name}: {listed!r} is not a list of host names")
    for one in listed:
        if not isinstance(one, str) or not _HOST_NAME.fullmatch(one):
            raise BadSettings(f"{name}: {one!r} is not a host name, such as fate.example.org, without a port")
    return frozenset(listed)


def read_https_url(url: str, name: str, example: str = "") -> SplitResult:
    """Return the parts of a URL of https, or of http on this machine, without user, query and fragment. Raise
    BadSettings, which does not show the URL: it may have a secret."""
    parts = split_url(url, name)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    is_more = parts.query or parts.fragment or parts.username is not None
    if is_more or not is_safe or not is_host(parts.hostname or "") or not url.isprintable():
        raise BadSettings(
            f"{name}: is not an https URL without user, query and fragment{example and f', such as {example}'}; "
            "http is only for 127.0.0.1"
        )
    return parts


def collector_url(url: str, where: str, path: str) -> str:
    """Return the URL of a collector, with this path unless it has one. Raise BadSettings."""
    parts = read_https_url(url, where, "https://collector.example.org:4318")
    return parts._replace(path=path).geturl() if parts.path in ("", "/") else url


def check_authorities(file: str, scheme: str, name: str) -> None:
    """Raise BadSettings unless the certificates in this file can check the server of a route."""
    if scheme != "https":
        raise BadSettings(f"{name}: its url is not https, so there is no certificate to check")
    try:
        certificates = create_default_context(cafile=file).get_ca_certs()
    except SSLError:
        certificates = []
    except OSError as error:
        raise BadSettings(f"{name}: {file}: cannot be read: {error.strerror}") from error
    if not certificates:
        raise BadSettings(f"{name}: {file}: has no certificate of an authority in PEM")


def is_host(text: str) -> bool:
    """Return whether this is a host name, perhaps with other letters than those of ASCII, or an IP address."""
    try:
        ip_address(text)
    except ValueError:
        try:
            return bool(_HOST_NAME.fullmatch(text.encode("idna").decode()))
        except UnicodeError:
            return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether only this machine is at an address. A name other than localhost may be that of any machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
