"""The section `traces`: the collector that gets the spans of this server, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import Section, collected, split_url
from fate_flow.settings.reading.security import check_authorities, collector_url

HEADERS_KEY = "traces.headers_file"

_PATH = "/v1/traces"
"""Where a collector takes spans, unless the URL has another path."""


@dataclass(frozen=True)
class TraceSettings:
    endpoint: str = field(default="", repr=False)      # the URL to which spans are posted; empty: traces are off
    ca_file: str = ""                  # authorities of its server; empty: those of the system
    share: float = 1.0                 # of all traces; which ones follows from their ids
    headers_file: Path | None = None   # private: the headers of each request, such as a token

    @property
    def is_on(self) -> bool:
        return bool(self.endpoint)


def read_traces(section: Section) -> TraceSettings:
    """Return the settings of traces; a wrong one is among the problems of the section."""
    headers = section.full_path("headers_file")
    found = TraceSettings(
        _endpoint(section) or "", section.full_path("ca_file"), section.share("share", 1.0),
        Path(headers) if headers else None,
    )  # fmt: skip
    _check_headers(section, found)
    if found.ca_file:
        _check_authorities(section, found)
    section.refuse_others()
    return found


@collected
def _endpoint(section: Section) -> str:
    url, where = section.text("endpoint"), section.name("endpoint")
    if not url:
        return ""
    return collector_url(url, where, _PATH)


@collected
def _check_headers(section: Section, found: TraceSettings) -> None:
    if found.headers_file is not None and not found.is_on:
        raise BadSettings(f"{section.name('headers_file')}: is set, but {section.name('endpoint')} is not")


@collected
def _check_authorities(section: Section, found: TraceSettings) -> None:
    where = section.name("ca_file")
    if not found.endpoint:
        raise BadSettings(f"{where}: is set, but {section.name('endpoint')} is not")
    check_authorities(found.ca_file, split_url(found.endpoint, where).scheme, where)
