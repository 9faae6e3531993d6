"""Certificates of companies' authorities between parties, in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fate_flow.core.access.certified import CertifiedParty
from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.party_ids import read_party_id
from fate_flow.settings.reading.section import Section, collected
from fate_flow.settings.reading.security import check_authorities, read_host_names

_BEGIN = "-----BEGIN CERTIFICATE-----"


def read_own_certificate(section: Section) -> Path | None:
    """Return the file of a certificate that an authority has made of this party's tls key; None: there is none."""
    return _own_certificate(section, "certificate")


@collected
def _own_certificate(section: Section, key: str) -> Path | None:
    if not (path := section.full_path(key)):
        return None
    _certificates_in(path, section.name(key))
    return Path(path)


def read_certified(parties: Section, own_party_id: str) -> Mapping[str, CertifiedParty]:
    """Return which other parties show certificates of an authority, by their ids."""
    section = parties.section("certified")
    found = (_certified(section, key, own_party_id) for key in section.names())
    return dict(filter(None, found))


@collected
def _certified(section: Section, key: Any, own_party_id: str) -> tuple[str, CertifiedParty]:
    party_id, one = read_party_id(str(key), section.name(key)), section.section(key)
    file, name = one.full_path("ca"), one.text("name")
    one.refuse_others()
    if party_id == own_party_id:
        raise BadSettings(f"{section.name(key)}: is this party itself; its own is parties.certificate")
    if not file:
        raise BadSettings(f"{one.name('ca')}: is missing: the file with the certificates of the authority")
    if not name:
        raise BadSettings(f"{one.name('name')}: is missing: the DNS name in the certificates of party {party_id}")
    read_host_names([name], one.name("name"))
    check_authorities(file, "https", one.name("ca"))
    return party_id, CertifiedParty(name.lower(), _certificates_in(file, one.name("ca")))


def _certificates_in(path: str, name: str) -> str:
    """Return the text of a file with certificates. Raises BadSettings."""
    try:
        text = Path(path).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise BadSettings(f"{name}: {path}: cannot be read: {why}") from error
    if _BEGIN not in text:
        raise BadSettings(f"{name}: {path}: has no certificate in PEM")
    return text
