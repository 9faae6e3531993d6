"""The exports of the section `record`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reader import load_settings
from fate_flow.settings.recording.exports import CollectorExport, SyslogExport
from fate_flow.settings.recording.record import RecordSettings
from tests.kit.tls import Authority


def read(folder: Path, exports: str, switch: str = "true") -> RecordSettings:
    path = folder / "service_conf.yaml"
    text = f'party_id: "9999"\nhome: {folder}/home\nrecord: {{switch: {switch}, exports: {{{exports}}}}}\n'
    path.write_text(text, encoding="utf-8")
    return load_settings(path).recording


def test_both_kinds_are_read(tmp_path: Path) -> None:
    ca_file = str(Authority(tmp_path).file)
    found = read(
        tmp_path,
        f"a: {{syslog: 'siem.example.org:6514', ca_file: '{ca_file}', close_notify: false}}, "
        "b: {syslog: '[::1]:514', tls: false}, "
        "c: {opentelemetry: 'https://collector.example.org:4318', headers_file: token}",
    )
    assert found.exports == (
        SyslogExport("a", "siem.example.org", 6514, True, ca_file, False), SyslogExport("b", "::1", 514, False),
        CollectorExport("c", "https://collector.example.org:4318/v1/logs", "", tmp_path / "token"),
    )  # fmt: skip
    assert read(tmp_path, "", "false") == RecordSettings(is_on=False)


@pytest.mark.parametrize(("text", "said"), [
    ("a: {syslog: 'siem.example.org'}", "record.exports.a.syslog: 'siem.example.org' is not a host with a port, such"),
    ("a: {syslog: 'tcp://siem.example.org:6514'}", "record.exports.a.syslog: 'tcp://siem.example.org:6514' is not a"),
    ("a: {syslog: 'siem.example.org:99999'}", "record.exports.a.syslog"),
    ("a: {syslog: 'siem..example.org:6514'}", "record.exports.a.syslog: 'siem..example.org:6514' is not a host with"),
    ("a: {syslog: 'siem.example.org:514', tls: false}", "record.exports.a.tls: is false, and siem.example.org is ano"),
    ("a: {syslog: '127.0.0.1:514', tls: false, ca_file: x}", "record.exports.a.ca_file: is set, and record.exports.a"),
    ("a: {syslog: '127.0.0.1:514', ca_file: x.pem}", "record.exports.a.ca_file: "),
    ("a: {syslog: '127.0.0.1:514', headers_file: x}", "record.exports.a.headers_file: no such key"),
    ("a: {opentelemetry: 'http://collector.example.org'}", "record.exports.a.opentelemetry: is not an https URL"),
    ("a: {opentelemetry: 'https://c.example.org', tls: false}", "record.exports.a.tls: no such key"),
    ("a: {}", "record.exports.a: has to have one of the keys syslog and opentelemetry"),
    ("a: {syslog: '127.0.0.1:1', opentelemetry: 'https://c.example.org'}", "record.exports.a: has to have one of the"),
    ("'1': {syslog: '127.0.0.1:1'}", "record.exports.1: is not a name"),
    (", ".join(f"e{one}: {{syslog: '127.0.0.1:1'}}" for one in range(5)), "record.exports: has 5 names, more than 4"),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadSettings) as refused:
        read(tmp_path, text)
    assert said in refused.value.message


def test_without_a_record_there_is_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"record\.exports: is set, but record\.switch is not true"):
        read(tmp_path, "a: {syslog: '127.0.0.1:1'}", "false")
