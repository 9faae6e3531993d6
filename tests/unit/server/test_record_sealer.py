"""The thread that signs the record also writes down by which key list this party is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.entry import read_entry
from fate_flow.peers.key_files import LIST_FILE
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.server.periodic.record_sealer import RecordSealer, own_list
from tests.kit.services.hand_server import HandServer
from tests.kit.services.records import without_peers
from tests.kit.values import NOW


def test_the_own_key_list_is_recorded_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    server, keys = HandServer(), OwnKeys("9999", tmp_path, tmp_path / "message.pem", lambda: NOW)
    sealer = RecordSealer(
        server.context, without_peers(server.context, lambda: None), lambda: True, lambda: None, lambda: 0.0,
        lambda: own_list(tmp_path),
    )  # fmt: skip
    sealer.sign()
    keys.make()
    for _ in range(2):
        sealer.sign()
    keys.announce("tls", 60_000)
    sealer.sign()

    with server.store.reading() as tx:
        found = [read_entry(one.content) for one in tx.unsealed_entries(9)]
    assert [(one["kind"], one["number"]) for one in found] == [("keys", 1), ("keys", 2)]
    assert len({one["list"] for one in found}) == 2


def test_a_key_list_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / LIST_FILE).write_text("{", encoding="utf-8")
    with pytest.raises(BadSettings, match=LIST_FILE):
        own_list(tmp_path)
