"""As which user programs of jobs run here (`commands.user`, `commands.as_root`): the checks before a start."""

from __future__ import annotations

import os
import stat

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.program import ProgramRules
from fate_flow.engines.local.program_user import PASSES, ProgramUser
from fate_flow.engines.local.sandbox import check_bubblewrap
from fate_flow.settings.settings import Settings


def check_program_user(settings: Settings) -> None:
    """Raise BadSettings if programs may not run here as the user that the configuration leads to."""
    rules = settings.commands
    if not rules.enabled:
        return
    user = _user_of(rules)
    if rules.sandbox:
        _check_sandbox(rules.sandbox, user)


def _user_of(rules: ProgramRules) -> ProgramUser | None:
    """Return the user of programs; None for the server's own. Raises BadSettings."""
    is_root = os.geteuid() == 0
    if not rules.user:
        if is_root and not rules.as_root:
            raise BadSettings(
                "commands.enabled: programs of jobs would run as root, which may do anything on this machine: name a "
                "user for them (commands.user), run the server as another user, or set commands.as_root: true"
            )
        return None
    where = f"commands.user: {rules.user}"
    if rules.as_root:
        raise BadSettings(f"{where}: commands.as_root is true; only one of them can hold")
    if not is_root:
        raise BadSettings(f"{where}: only a server of root can run programs as another user; leave it out")
    try:
        user = ProgramUser.of(rules.user)
    except LookupError as error:
        raise BadSettings(f"{where}: this machine has no user of that name") from error
    if user.uid == 0:
        raise BadSettings(f"{where}: is root; name a user without rights of its own")
    return user


def _check_sandbox(where: str, user: ProgramUser | None) -> None:
    try:
        check_bubblewrap(where, user)
    except LookupError as error:
        raise BadSettings(str(error)) from error


def open_home(settings: Settings) -> None:
    """Let the user of programs pass to the folders of its workers, and to nothing else of the home, nor of the folder
    that several servers of the party share.

    Raises BadSettings if a folder above the home is closed to it."""
    rules = settings.commands
    if not rules.enabled or not rules.user:
        return
    user, jobs = ProgramUser.of(rules.user), settings.jobs_dir
    for home in {settings.home, settings.shared}:
        # What a link in it leads to lies elsewhere, and is its owner's.
        for path in (home, *(entry for entry in home.iterdir() if not entry.is_symlink())):
            on_the_way = PASSES if jobs.is_relative_to(path) else 0
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o077 | on_the_way)
    jobs.chmod(PASSES)
    if why_not := user.why_not_reached(jobs):
        raise BadSettings(f"commands.user: {rules.user}: {why_not}; move the home, or let others pass (chmod o+x)")
