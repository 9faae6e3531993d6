"""The section `record` and its witnesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.note import COSIGNATURE
from fate_flow.settings.reader import load_settings
from fate_flow.settings.recording.record import RecordSettings
from tests.kit.core.signers import Signer

KEY = Signer("witness.example/a", COSIGNATURE).key.text()
URL = "https://witness.example/below"


def read(folder: Path, text: str) -> RecordSettings:
    path = folder / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\nhome: {folder}/home\nrecord: {{{text}}}\n', encoding="utf-8")
    return load_settings(path).recording


def witness(url: str = URL, key: str = KEY, more: str = "", name: str = "public") -> str:
    return f"switch: true, witnesses: {{{name}: {{url: '{url}', key: '{key}'{more}}}}}"


def test_the_witnesses_are_read_with_their_keys(tmp_path: Path) -> None:
    found = read(tmp_path, witness())
    [one] = found.witnesses
    assert (found.is_on, one.name, one.url, one.key.text()) == (True, "public", URL, KEY)
    assert read(tmp_path, "") == RecordSettings()
    assert read(tmp_path, witness("http://127.0.0.1:9/x")).witnesses[0].url == "http://127.0.0.1:9/x"


@pytest.mark.parametrize(("text", "said"), [
    (witness("http://witness.example"), "record.witnesses.public.url: is not an https URL"),
    (witness("https://user@witness.example"), "record.witnesses.public.url: is not an https URL"),
    (witness("https://witness.example/?a=b"), "record.witnesses.public.url: is not an https URL"),
    (witness(key="x"), "record.witnesses.public.key: 'x' is no key NAME+ID+BASE64"),
    (witness(key=Signer("log").key.text()), "record.witnesses.public.key: is a key of type 1; a witness has one of"),
    (witness(more=", logs: all"), "record.witnesses.public.logs"),
    (witness(name="'10000'"), "record.witnesses.10000: is not a name"),
    (witness(more=", ca_file: nowhere.pem"), "record.witnesses.public.ca_file"),
    ("witnesses: {" + ", ".join(f"w{one}: {{url: '{URL}', key: '{KEY}'}}" for one in range(9)) + "}",
     "record.witnesses: has 9 names, more than 8"),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadSettings) as refused:
        read(tmp_path, text)
    assert said in refused.value.message
