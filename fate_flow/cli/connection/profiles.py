"""Profiles: a user can talk to several servers. `flow init` stores the settings of each in its own file.

The file of a profile is beside the default file: `settings.bank.yaml` beside `settings.yaml`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")


def settings_path(profile: str = "") -> Path:
    """Return the file of this profile; "" is the default profile. `FATE_FLOW_SETTINGS` replaces the default path."""
    named = os.environ.get("FATE_FLOW_SETTINGS")
    path = Path(named).expanduser() if named else Path.home() / ".config" / "fate_flow" / "settings.yaml"
    return path.with_name(f"{path.stem}.{profile}{path.suffix}") if profile else path


def known_profiles() -> list[str]:
    path = settings_path()
    found = (one.name.removeprefix(f"{path.stem}.").removesuffix(path.suffix)
             for one in path.parent.glob(f"{path.stem}.*{path.suffix}"))  # fmt: skip
    return sorted(filter(_NAME.fullmatch, found))


def checked_profile(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value and not _NAME.fullmatch(value):
        raise click.BadParameter("must be 1 to 50 letters, digits, _ or -")
    return value


def profile_in(context: click.Context) -> str:
    """Return the profile that a command uses; "" if none."""
    return str(context.params.get("profile") or context.find_root().params.get("profile") or "")
