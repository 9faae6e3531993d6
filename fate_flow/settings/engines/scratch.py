"""The keys of an engine by which its workers are staged on hosts that do not see the home."""

from __future__ import annotations

from pathlib import Path

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import Section

SCRATCH = Path("/tmp")           # noqa: S108  # the agent makes a folder of its own there, and checks whose it is


def read_shared_home(section: Section) -> bool:
    """Return whether the hosts of an engine see the home; else workers are staged."""
    return section.flag("shared_home", True)


def read_scratch(section: Section) -> Path:
    """Return where folders of staged workers are made on their hosts. Raises BadSettings."""
    text = section.text("scratch")
    if not text:
        return SCRATCH
    if read_shared_home(section):
        raise BadSettings(
            f"{section.name('scratch')}: {text!r} has no effect, since workers run in the home that the nodes see: "
            f"leave it out, or set {section.name('shared_home')} to false"
        )
    if not text.startswith("/") or set(text) & set("%\\\n") or ".." in text.split("/"):
        raise BadSettings(
            f"{section.name('scratch')}: {text!r} is not the absolute path of a folder of the nodes, without %, \\ "
            "and .."
        )
    return Path(text)
