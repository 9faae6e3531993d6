"""Other parties in the configuration: their addresses, and which of them need no signature or no approval."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from fate_flow.core.access.invitation import check_address
from fate_flow.core.access.site import SiteRule
from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.core.model.grammar import check_party_id
from fate_flow.settings.section import Section, collected, split_url
from fate_flow.settings.security import check_authorities


@dataclass(frozen=True)
class Route:
    """The address of another party's server."""

    url: str
    ca_file: str = ""        # certificates for checking an https server, instead of the system's authorities
    signed_answers: bool = False      # whether only answers that the party has signed count


@dataclass(frozen=True)
class Listen:
    """Where the gateway listens for other parties."""

    host: str
    port: int


def read_parties(section: Section) -> tuple[Listen | None, str]:
    """Return where the gateway listens (None: nowhere), and its address for other parties (empty: not known)."""
    listen = section.section("listen")
    found = Listen(listen.text("host", "0.0.0.0"), listen.whole("port", 0, 0, 65535))  # noqa: S104  # it speaks mutual TLS
    listen.refuse_others()
    address = _address(section, found)
    section.refuse_others()
    return (_checked(listen, found), address) if found.port else (None, "")


@collected
def _address(section: Section, listen: Listen) -> str:
    """Return `address`, or what follows from `listen`: nothing if it is every address of the machine."""
    text = section.text("address")
    if not text:
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        return "" if listen.host in ("0.0.0.0", "::") else f"https://{host}:{listen.port}"  # noqa: S104
    try:
        return check_address(text, section.name("address"))
    except BadRequest as error:
        raise BadSettings(error.message) from error


@collected
def _checked(section: Section, listen: Listen) -> Listen:
    try:
        ip_address(listen.host)
    except ValueError as error:
        raise BadSettings(f"{section.name('host')}: {listen.host!r} is not an IP address") from error
    return listen


def read_routes(section: Section) -> dict[str, Route]:
    found = (_route(section, key) for key in section.names())
    return dict(filter(None, found))


@collected
def _route(section: Section, key: Any) -> tuple[str, Route]:
    party_id, one = read_party_id(str(key), section.name(key)), section.section(key)
    url, ca_file = one.text("url").rstrip("/"), one.full_path("ca")
    signed_answers = one.flag("signed_answers", False)
    one.refuse_others()
    parts = split_url(url, one.name("url"))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadSettings(f"{one.name('url')}: {url!r} is not an address such as http://10.0.0.2:9380")
    if ca_file:
        check_authorities(ca_file, parts.scheme, one.name("ca"))
    return party_id, Route(url, ca_file, signed_answers)


def read_site_rule(section: Section) -> SiteRule:
    return SiteRule(section.flag("switch", False), read_party_ids(section, "unsigned_from"))


def read_approval_rule(section: Section) -> ApprovalRule:
    spared = read_party_ids(section, "except_from")
    found = ApprovalRule(section.flag("required", False), spared, section.whole("people", 1, 1, 2))
    section.refuse_others()
    return found


@collected
def read_party_ids(section: Section, key: str) -> frozenset[str]:
    name, listed = section.name(key), section.get(key, [])
    if not isinstance(listed, list):
        raise BadSettings(f"{name}: {listed!r} is not a list of party ids")
    return frozenset(read_party_id(str(one), name) for one in listed)


def read_party_id(text: str, name: str) -> str:
    try:
        return check_party_id(text)
    except BadRequest as error:
        raise BadSettings(f"{name}: {text!r} is not a party id, such as \"9999\"") from error
