"""The section `record`: whether what happens is recorded, which witnesses cosign the own log, and which programs get
what is recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.note import COSIGNATURE, BadNote, NoteKey, read_note_key
from fate_flow.settings.reading.section import Section, collected
from fate_flow.settings.reading.security import check_authorities, read_https_url
from fate_flow.settings.recording.exports import RecordExport, read_export

MOST_WITNESSES, MOST_EXPORTS = 8, 4
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,31}")


@dataclass(frozen=True)
class RecordWitness:
    """A witness of the own log that is no party (C2SP tlog-witness)."""

    name: str                # in the configuration and in what is shown
    url: str                 # below which `add-checkpoint` is
    key: NoteKey             # by which it cosigns
    ca_file: str = ""        # authorities of its server; empty: those of the system


@dataclass(frozen=True)
class RecordSettings:
    is_on: bool = True
    witnesses: tuple[RecordWitness, ...] = field(default_factory=tuple)
    exports: tuple[RecordExport, ...] = field(default_factory=tuple)
    reserve: int = 64 << 20      # bytes of the disk with a SQLite database that are kept for it; 0: none


def read_record(section: Section) -> RecordSettings:
    is_on = section.flag("switch", RecordSettings.is_on)
    listed, outside = section.section("witnesses"), section.section("exports")
    witnesses = tuple(filter(None, (_witness(listed, name) for name in _names(listed, MOST_WITNESSES) or ())))
    read = (read_export(outside, name) for name in _names(outside, MOST_EXPORTS) or ())
    exports = tuple(one for one in read if one is not None)
    if exports and not is_on:
        section.problems.append(f"{outside.path}: is set, but {section.name('switch')} is not true")
    reserve = section.whole("reserve", RecordSettings.reserve)
    section.refuse_others()
    return RecordSettings(is_on, witnesses, exports, reserve)


@collected
def _names(section: Section, most: int) -> list[str]:
    names = section.names()
    if len(names) > most:
        raise BadSettings(f"{section.path}: has {len(names)} names, more than {most}")
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadSettings(
                f"{section.name(str(name))}: is not a name: a letter, and at most 31 letters, digits and - . _ after it"
            )
    return names


@collected
def _witness(section: Section, name: str) -> RecordWitness:
    one = section.section(name)
    url, where = one.text("url"), one.name("url")
    parts = read_https_url(url, where)
    try:
        key = read_note_key(one.text("key"))
    except BadNote as error:
        raise BadSettings(f"{one.name('key')}: {error}") from error
    if key.kind != COSIGNATURE:
        raise BadSettings(f"{one.name('key')}: is a key of type {key.kind}; a witness has one of type {COSIGNATURE}")
    ca_file = one.full_path("ca_file")
    if ca_file:
        check_authorities(ca_file, parts.scheme, one.name("ca_file"))
    one.refuse_others()
    return RecordWitness(name, url, key, ca_file)
