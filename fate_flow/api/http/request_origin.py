"""Refuse requests of web pages of other sites that run in a user's browser.

A browser lets any page send requests to a server of this machine or network. It names the page in `Origin` and
`Sec-Fetch-Site`. If the name of a page is made to lead to this server (DNS rebinding), the browser takes the page for
one of the same origin, but `Host` has its name. So all three headers are checked, on every route, before any key. Only
a link to a page of the board may come from another site. Programs send only `Host`, with the address that they were
given.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from flask import request

from fate_flow.core.model.errors import PermissionDenied
from fate_flow.core.model.grammar import shown

FORBIDDEN = 403
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\s:\[\]/@,]{1,253})(?::[0-9]{1,5})?")
_OWN_PAGE = ("same-origin", "none")          # none: a user typed the address


class OtherSite(PermissionDenied):
    """A web page of another site sent the request, or it names a host that is not this server."""


class OriginCheck:
    """The check of one server. `names`: its names besides IP addresses and the names of this machine. `pages`: the path
    below which people see pages, to which pages of other sites may have links; empty: none."""

    def __init__(self, names: Collection[str] = (), pages: str = "") -> None:
        self._names = frozenset(map(_without_case, names))
        self._pages = f"{pages}/" if pages else ""
        self._own = self._names | {"localhost", _without_case(socket.gethostname())}

    def check(self) -> None:
        """Raise OtherSite."""
        host, origin = request.headers.get("Host"), request.headers.get("Origin")
        if host is not None and not self._is_own(host):
            raise OtherSite(
                f"Host: {shown(host)} is no name of this server: use its IP address, or ask its operator "
                "to add the name to fateflow.allowed_hosts",
            )  # fmt: skip
        if origin is not None and not self._is_own_page(origin, host or ""):
            raise OtherSite(f"Origin: {shown(origin)} is another site: its pages may not send requests here")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site not in _OWN_PAGE and not self._is_link():
            raise OtherSite(f"Sec-Fetch-Site: {shown(site)}: other sites' pages may not send requests here")

    def _is_link(self) -> bool:
        """Return whether somebody follows a link to a page: it changes nothing, no cookie of ours is sent,
        and the page of the other site does not see it."""
        how, where = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")
        is_page = bool(self._pages) and request.path.startswith(self._pages)
        return is_page and request.method == "GET" and (how, where) == ("navigate", "document")

    def _is_own(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = _without_case(found[1])
        return name in self._own or _is_address(name)

    def _is_own_page(self, origin: str, host: str) -> bool:
        """Return whether it is a page of this server, under its address or a name of its proxy."""
        try:
            parts = urlsplit(origin)
            name = parts.hostname or ""
        except ValueError:
            return False
        is_own = parts.netloc.lower() == host.lower() or _without_case(name) in self._names
        return parts.scheme in ("http", "https") and is_own


def _without_case(name: str) -> str:
    return name.strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    """Return whether the host is an IP address: DNS rebinding needs a name."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
