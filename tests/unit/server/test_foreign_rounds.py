"""The thread for foreign witnesses: over HTTP, and beside one that hangs."""

from __future__ import annotations

import socket

from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.note import read_note_key
from fate_flow.server.periodic.foreign_witnesses import ForeignRounds, sending_to
from fate_flow.services.record.checkpoints import origin_of
from fate_flow.services.witnesses.foreign import ForeignWitnesses
from fate_flow.settings.logs import RecordWitness
from tests.kit.core.signers import has_signed
from tests.kit.peers.small_witness import SmallWitness
from tests.kit.services.witness_parties import WitnessParty


def test_a_witness_that_hangs_holds_up_no_other_one() -> None:
    party, good, silent = WitnessParty("9999"), SmallWitness(), SmallWitness("silent.example")
    good.knows(party.keys.signer.key_of(origin_of(party.keys.root, OWN_LOG, 1)).text())
    with good.served() as url, socket.create_server(("127.0.0.1", 0)) as hangs:
        listed = [
            RecordWitness("good", url, read_note_key(good.vkey)),
            RecordWitness("silent", f"http://127.0.0.1:{hangs.getsockname()[1]}", read_note_key(silent.vkey)),
        ]
        foreign = ForeignWitnesses(
            party.context, [(one.name, one.key) for one in listed], lambda: party.keys.signer, has_signed,
            lambda: party.passed,
        )  # fmt: skip
        may_work = [False]
        rounds = ForeignRounds(foreign, sending_to(listed, 0.2), lambda: may_work[0], lambda: None)
        rounds.step()
        assert good.seen == []
        may_work[0] = True
        rounds.step()
        assert foreign.heard() == (1, 1)
        party.cosigning.others = foreign
        party.record("a")
        party.cosigning.look()
        party.wait(60)
        party.sign()                     # it waits for nobody any more
        rounds.step()
    assert next(iter(good.kept.values()))[0] == 1
    rounds._end()
