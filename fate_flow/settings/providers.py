"""The section `providers`: providers of components that have a Python of their own."""

from __future__ import annotations

import os
import re
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.settings.reading.section import Section, collected

_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,39}")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def read_providers(section: Section) -> dict[str, ProviderPlace]:
    """Return the providers by their names, as the file lists them."""
    found = (_provider(section, name) for name in section.names())
    return {one.name: one for one in found if one is not None}


@collected
def _provider(section: Section, name: Any) -> ProviderPlace:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadSettings(
            f"{section.name(str(name))}: is not a name of a provider, of 1 to 30 small letters, digits and _, such as "
            "fate"
        )
    one = section.section(name)
    place = ProviderPlace(
        name, _matching(one, "version", "", _VERSION, "a version, such as 2.2.0"), _python(one),
        _matching(one, "module", f"{name}.components", _MODULE, "a Python module, such as fate.components"),
        one.flag("warm", True),
    )  # fmt: skip
    one.refuse_others()
    return place


def _matching(section: Section, key: str, default: str, grammar: re.Pattern[str], right: str) -> str:
    text = section.text(key, default)
    if not text:
        raise BadSettings(f"{section.name(key)}: is missing; it is {right}")
    if not grammar.fullmatch(text):
        raise BadSettings(f"{section.name(key)}: {text!r} is not {right}")
    return text


def _python(section: Section) -> str:
    key = section.name("python")
    path = section.path_with_links("python")
    right = "name the Python of the environment that has the provider (bin/fate-provider install makes that of FATE)"
    if path is None:
        raise BadSettings(f"{key}: is missing; {right}")
    if not path.is_file():
        raise BadSettings(f"{key}: there is no file {str(path)!r}; {right}")
    if not os.access(path, os.X_OK):
        raise BadSettings(f"{key}: {str(path)!r} is not executable; {right}")
    return str(path)
