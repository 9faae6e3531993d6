"""The key `exports` of the section `record`: the programs that collect logs and get what is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import Section, collected, split_url
from fate_flow.settings.reading.security import check_authorities, collector_url, is_host, is_loopback

_PATH = "/v1/logs"
"""Where a collector takes logs, unless the URL has another path."""

_KINDS = ("syslog", "opentelemetry")


@dataclass(frozen=True)
class SyslogExport:
    """To a receiver of syslog (RFC 5424), over TLS (RFC 5425), or over TCP on this machine (RFC 6587)."""

    name: str
    host: str
    port: int
    has_tls: bool = True
    ca_file: str = ""                  # authorities of its certificate; empty: those of the system
    close_notify: bool = True          # whether it has to end TLS by this word; else, somebody may have cut the end


@dataclass(frozen=True)
class CollectorExport:
    """To a collector of OpenTelemetry, as logs (OTLP over HTTP)."""

    name: str
    url: str = field(repr=False)       # to which logs are posted
    ca_file: str = ""
    headers_file: Path | None = None   # private: the headers of each request, such as a token


def headers_key(export: CollectorExport) -> str:
    """Return the key that names its file of headers."""
    return f"record.exports.{export.name}.headers_file"


RecordExport = SyslogExport | CollectorExport


def read_export(section: Section, name: str) -> RecordExport | None:
    """Return one of the exports; a wrong one is among the problems of the section, and None."""
    one = section.section(name)
    kinds = [kind for kind in _KINDS if kind in one.values]
    if len(kinds) != 1:
        one.problems.append(f"{one.path}: has to have one of the keys {' and '.join(_KINDS)}")
        return None
    found = _syslog(one, name) if kinds == ["syslog"] else _collector(one, name)
    one.refuse_others()
    return found


@collected
def _syslog(one: Section, name: str) -> SyslogExport:
    address, where = one.text("syslog"), one.name("syslog")
    has_tls, ca_file = one.flag("tls", True), one.full_path("ca_file")
    close_notify = one.flag("close_notify", True)
    parts = split_url(f"//{address}", where)
    if not is_host(parts.hostname or "") or not parts.port or parts.netloc != address or parts.username is not None:
        raise BadSettings(f"{where}: {address!r} is not a host with a port, such as siem.example.org:6514")
    if not has_tls and not is_loopback(parts.hostname or ""):
        raise BadSettings(
            f"{one.name('tls')}: is false, and {parts.hostname} is another machine: nothing would be encrypted; send "
            "to a relay on 127.0.0.1, or remove tls"
        )
    if ca_file and not has_tls:
        raise BadSettings(f"{one.name('ca_file')}: is set, and {one.name('tls')} is false: no certificate is checked")
    if ca_file:
        check_authorities(ca_file, "https", one.name("ca_file"))
    return SyslogExport(name, parts.hostname or "", parts.port, has_tls, ca_file, close_notify)


@collected
def _collector(one: Section, name: str) -> CollectorExport:
    url = collector_url(one.text("opentelemetry"), one.name("opentelemetry"), _PATH)
    ca_file, headers = one.full_path("ca_file"), one.full_path("headers_file")
    if ca_file:
        check_authorities(ca_file, urlsplit(url).scheme, one.name("ca_file"))
    return CollectorExport(name, url, ca_file, Path(headers) if headers else None)
