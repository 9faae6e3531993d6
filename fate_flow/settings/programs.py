"""The section `commands`: what programs of clients may do here."""

from __future__ import annotations

import re
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.program import BUBBLEWRAP, SECRET_NAME, ProgramRules, Secret
from fate_flow.settings.reading.party_ids import read_party_id
from fate_flow.settings.reading.section import Section, collected

_VOLUME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,49}")
_ALLOWED = re.compile(r"/.*[^/]|sha256:[0-9a-f]{64}", re.DOTALL)


@collected
def read_commands(section: Section) -> ProgramRules:
    found = ProgramRules(
        enabled=section.flag("enabled", False),
        allow=_allowed_programs(section),
        share_logs=section.flag("share_logs", False),
        files_root=section.full_path("files_root"),
        volumes=_volumes(section),
        output_max_bytes=section.whole("output_max_bytes", ProgramRules.output_max_bytes),
        secrets=_secrets(section.section("secrets")),
        user=section.text("user", ""),
        sandbox=_sandbox(section),
        as_root=section.flag("as_root", False),
    )
    section.refuse_others()
    return found


@collected
def _allowed_programs(section: Section) -> tuple[str, ...]:
    allow = section.get("allow", [])
    if not isinstance(allow, list):
        raise BadSettings(f"{section.name('allow')}: {allow!r} is not a list of programs and digests")
    for one in allow:
        if not isinstance(one, str) or not _ALLOWED.fullmatch(one):
            raise BadSettings(
                f"{section.name('allow')}: {one!r} is neither the absolute path of a program, such as "
                "/usr/bin/python3, nor sha256: and the 64 hex digits of one"
            )
    return tuple(allow)


def _sandbox(section: Section) -> str:
    found = section.text("sandbox", "none")
    if found not in ("none", BUBBLEWRAP) and not found.startswith("/"):
        raise BadSettings(
            f"{section.name('sandbox')}: {found!r} is neither none nor {BUBBLEWRAP}, nor the absolute path of "
            "bubblewrap"
        )
    return "" if found == "none" else found


@collected
def _volumes(section: Section) -> dict[str, str]:
    one = section.section("volumes")
    for name in one.names():
        if not isinstance(name, str) or not _VOLUME.fullmatch(name) or not one.text(name).startswith("/"):
            raise BadSettings(
                f"{one.name(str(name))}: must be a name of letters, digits, _ and -, with an absolute path"
            )
    return {name: one.text(name) for name in one.names()}


def _secrets(section: Section) -> dict[str, Secret]:
    """Return the secrets. Their files are read when a job needs them, so they may change without a restart."""
    found = (_secret(section, name) for name in section.names())
    return dict(filter(None, found))


@collected
def _secret(section: Section, name: Any) -> tuple[str, Secret]:
    if not isinstance(name, str) or not SECRET_NAME.fullmatch(name):
        raise BadSettings(f"{section.name(str(name))}: is not a name of 1 to 50 letters, digits and _")
    one = section.section(name)
    listed, where = one.get("initiators", []), one.name("initiators")
    if not isinstance(listed, list):
        raise BadSettings(f"{where}: {listed!r} is not a list of party ids")
    secret = Secret(one.full_path("file"), tuple(read_party_id(str(each), where) for each in listed))
    if not secret.file:
        raise BadSettings(f"{one.name('file')}: is missing; name the file with the secret, of mode 0600")
    one.refuse_others()
    return name, secret
