"""Other parties in the configuration: where they connect, their addresses, and which need no signature or approval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from fate_flow.core.access.invitation import check_address
from fate_flow.core.access.joined_party import DIALED, dialed_url
from fate_flow.core.access.site import SiteRule
from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.settings.reading.party_ids import read_party_id, read_party_ids
from fate_flow.settings.reading.section import Section, collected, split_url, without_login
from fate_flow.settings.reading.security import check_authorities, is_host, is_loopback


@dataclass(frozen=True)
class Route:
    """The address of another party's server."""

    url: str                 # dialed://<party id>: the party keeps connections open here
    ca_file: str = ""        # certificates for checking an https server, instead of the system's authorities
    signed_answers: bool | None = None    # whether only signed answers count; None: if nothing else proves the party

    @property
    def is_dialed(self) -> bool:
        """Return whether the party keeps connections open here, and has no address."""
        return self.url.startswith(DIALED)

    @property
    def shows_key(self) -> bool:
        """Return whether connections end at a key of the party, once its key list is here."""
        return self.is_dialed or (self.url.startswith("https:") and not self.ca_file)

    @property
    def is_local(self) -> bool:
        """Return whether the address is one of this machine."""
        return not self.is_dialed and is_loopback(urlsplit(self.url).hostname or "")


@dataclass(frozen=True)
class Listen:
    """Where the gateway listens for other parties."""

    host: str
    port: int


@dataclass(frozen=True)
class PlainParties:
    """The listener for peers that speak plain v1, and the ids of those that are believed there by their names."""

    listen: Listen
    party_ids: frozenset[str]


@dataclass(frozen=True)
class PartyListeners:
    """The listeners for other parties alone."""

    gateway: Listen | None           # None: there is no gateway
    address: str                     # of the gateway for other parties; empty: not known
    plain: PlainParties | None
    behind_proxy: Listen | None = None        # for a proxy that has ended the TLS of other parties
    dials: bool = False              # whether this party keeps connections to others open instead of listening

    @property
    def listens(self) -> dict[str, Listen]:
        """Return the listeners by their keys in the configuration."""
        found = {"parties.listen": self.gateway, "parties.plain.listen": self.plain.listen if self.plain else None}
        return {key: one for key, one in found.items() if one is not None}


def read_parties(section: Section, own_party_id: str, clients: Listen) -> PartyListeners:
    listen = section.section("listen")
    found = Listen(listen.text("host", "0.0.0.0"), listen.whole("port", 0, 0, 65535))  # noqa: S104  # it speaks mutual TLS
    listen.refuse_others()
    address, dials = _address(section, found), bool(_dials(section, found))
    plain = _plain_parties(section.section("plain"), (own_party_id, "0"), clients)
    others = {"fateflow.http_port": clients, "parties.plain.listen.port": plain.listen if plain else None}
    behind_proxy = _behind_proxy(section, dials, others)
    section.refuse_others()
    if not found.port:
        return PartyListeners(None, "", plain, behind_proxy, dials)
    _check_port(listen, found, {**others, "parties.behind_proxy.port": behind_proxy})
    return PartyListeners(_checked(listen, found), address, plain, behind_proxy)


@collected
def _behind_proxy(section: Section, dials: bool, others: Mapping[str, Listen | None]) -> Listen | None:
    place = section.section("behind_proxy")
    found = Listen(place.text("host", "127.0.0.1"), place.whole("port", 0, 0, 65535))
    place.refuse_others()
    if not found.port:
        return None
    if dials:
        raise BadSettings(
            f"{section.name('dial')}: is true, and {place.name('port')} is set: a party that other parties reach does "
            "not dial them; remove one of the two"
        )
    _check_port(place, found, others)
    return found if _checked(place, found) else None


@collected
def _check_port(section: Section, listen: Listen, others: Mapping[str, Listen | None]) -> None:
    for name, other in others.items():
        if other is not None and _is_same_port(listen, other):
            raise BadSettings(f"{section.name('port')}: {listen.port} is {name}, too")


def _is_same_port(one: Listen, other: Listen) -> bool:
    is_everywhere = {"0.0.0.0", "::"} & {one.host, other.host}  # noqa: S104
    return one.port == other.port and (one.host == other.host or bool(is_everywhere))


def _plain_parties(section: Section, own: tuple[str, str], clients: Listen) -> PlainParties | None:
    listen, party_ids = section.section("listen"), read_party_ids(section, "from")
    found = Listen(listen.text("host", "127.0.0.1"), listen.whole("port", 0, 0, 65535))
    listen.refuse_others()
    section.refuse_others()
    if not found.port and not party_ids:
        return None
    return _checked_plain(section, PlainParties(found, party_ids or frozenset()), own, clients)


@collected
def _checked_plain(section: Section, plain: PlainParties, own: tuple[str, str], clients: Listen) -> PlainParties | None:
    if not plain.listen.port:
        raise BadSettings(f"{section.name('from')}: nobody can connect without {section.name('listen')}.port")
    if not plain.party_ids:
        raise BadSettings(f"{section.name('listen')}: nobody is let in there: {section.name('from')} names the parties")
    if mine := sorted(plain.party_ids & set(own)):
        raise BadSettings(f"{section.name('from')}: has party {mine[0]}, which is this server itself")
    _check_port(section.section("listen"), plain.listen, {"fateflow.http_port": clients})
    return plain if _checked(section.section("listen"), plain.listen) else None


@collected
def _dials(section: Section, listen: Listen) -> bool:
    dials = section.flag("dial", False)
    if dials and listen.port:
        raise BadSettings(
            f"{section.name('dial')}: is true, and {section.name('listen')} has a port: a party that other parties "
            "reach does not dial them; remove one of the two"
        )
    return dials


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
    url, ca_file, dials = one.text("url").rstrip("/"), one.full_path("ca"), one.flag("dials", False)
    signed_answers = one.flag("signed_answers", False) if one.get("signed_answers") is not None else None
    one.refuse_others()
    if dials:
        if url or ca_file:
            raise BadSettings(f"{one.name('dials')}: is true, so the party has no address: remove url and ca")
        return party_id, Route(dialed_url(party_id), "", signed_answers)
    parts = split_url(url, one.name("url"))
    if parts.scheme not in ("http", "https") or not is_host(parts.hostname or "") or parts.query or parts.fragment:
        raise BadSettings(f"{one.name('url')}: {without_login(url)} is not an address such as http://10.0.0.2:9380")
    if ca_file:
        check_authorities(ca_file, parts.scheme, one.name("ca"))
    return party_id, Route(url, ca_file, signed_answers)


def read_site_rule(
    section: Section, parties: PartyListeners, host: str, routes: Mapping[str, Route]
) -> SiteRule:  # fmt: skip
    """`host` is that of the port of clients, where parties connect without TLS."""
    unsigned_from = read_party_ids(section, "unsigned_from") or frozenset()
    plain_from = parties.plain.party_ids if parties.plain else frozenset()
    by_key = {party_id: one for party_id, one in routes.items() if party_id not in unsigned_from | plain_from}
    due_to = _open_route(by_key) or (f"fateflow.host: {host}" if by_key and not is_loopback(host) else "")
    if parties.behind_proxy:
        due_to = f"parties.behind_proxy.port: {parties.behind_proxy.port}"
    return SiteRule(section.flag("switch", bool(due_to)), unsigned_from, plain_from, due_to)


def _open_route(routes: Mapping[str, Route]) -> str:
    """Return the first address at another machine where no connection ends at a key of the party."""
    found = (f"routes.{party_id}.url: {one.url}" for party_id, one in routes.items()
             if not one.shows_key and not one.is_local)  # fmt: skip
    return next(found, "")


def read_approval_rule(section: Section) -> ApprovalRule:
    spared = read_party_ids(section, "except_from")
    found = ApprovalRule(section.flag("required", False), spared, section.whole("people", 1, 1, 2))
    section.refuse_others()
    return found
