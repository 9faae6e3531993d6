"""Logs: the keys `file_max_bytes` and `folder_max_bytes` of the section `log`; and the section `record`: whether what
happens is recorded, and which witnesses cosign the own log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.note import COSIGNATURE, BadNote, NoteKey, read_note_key
from fate_flow.settings.reading.section import Section, collected, split_url
from fate_flow.settings.security import check_authorities, is_loopback

MOST_WITNESSES = 8
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,31}")


@dataclass(frozen=True)
class LogLimits:
    """Limits in bytes: of a log file before rotation; of a folder of the server or of a job, with rotated files."""

    file_max_bytes: int = 64 << 20
    folder_max_bytes: int = 1 << 30


def read_log_limits(section: Section) -> LogLimits:
    default = LogLimits()
    return LogLimits(
        section.whole("file_max_bytes", default.file_max_bytes, 4096),
        section.whole("folder_max_bytes", default.folder_max_bytes, 4096),
    )


@dataclass(frozen=True)
class RecordWitness:
    """A witness of the own log that is no party (C2SP tlog-witness)."""

    name: str                # in the configuration and in what is shown
    url: str                 # below which `add-checkpoint` is
    key: NoteKey             # by which it cosigns
    ca_file: str = ""        # authorities of its server; empty: those of the system


@dataclass(frozen=True)
class RecordSettings:
    is_on: bool = False
    witnesses: tuple[RecordWitness, ...] = field(default_factory=tuple)


def read_record(section: Section) -> RecordSettings:
    is_on, listed = section.flag("switch", False), section.section("witnesses")
    witnesses = tuple(filter(None, (_witness(listed, name) for name in _names(listed) or ())))
    section.refuse_others()
    return RecordSettings(is_on, witnesses)


@collected
def _names(section: Section) -> list[str]:
    names = section.names()
    if len(names) > MOST_WITNESSES:
        raise BadSettings(f"{section.path}: has {len(names)} names, more than {MOST_WITNESSES}")
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
    parts = split_url(url, where)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_safe or not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise BadSettings(f"{where}: is not an https URL without user, query and fragment; http is only for 127.0.0.1")
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
