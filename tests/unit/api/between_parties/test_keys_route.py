"""A party answers with its newest key list, which is public."""

from __future__ import annotations

import time
from pathlib import Path

from fate_flow.core.access.key_list import read_signed_key_list
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.own_keys import OwnKeys
from tests.kit.api.client_world import make_world

HEAD = {"SRC-PARTY-ID": "10000"}


def test_the_newest_key_list_is_sent(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    without = world.ask("party/keys", {}, headers=HEAD)
    assert (without["retcode"], without["retmsg"]) == (101, "party 9999 has no key list")
    settings = world.services.settings
    own = OwnKeys("9999", settings.keys_dir, settings.private_key, lambda: time.time_ns() // 1_000_000)
    own.make()
    own.certify()
    found, root = check_key_list(read_signed_key_list(world.ask("party/keys", {}, headers=HEAD)["data"]["key_list"]))
    assert (found.party_id, found.number, root) == ("9999", 2, own.root())
