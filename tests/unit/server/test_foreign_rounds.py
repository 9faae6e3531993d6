"""The thread for foreign witnesses: over HTTP, and beside one that hangs."""

from __future__ import annotations

import socket

from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.note import read_note_key
from fate_flow.server.periodic.foreign_witnesses import ForeignRounds, sending_to
from fate_flow.services.record.checkpoints import origin_of
from fate_flow.services.witnesses.foreign import ForeignOffer, ForeignWitnesses
from fate_flow.settings.recording.record import RecordWitness
from tests.kit.core.signers import has_signed
from tests.kit.peers.small_witness import SmallWitness
from tests.kit.services.witness_parties import WitnessParty
from tests.kit.waiting import SECONDS, eventually


def test_a_witness_that_hangs_holds_up_no_other_one() -> None:
    party, good, silent = WitnessParty("9999"), SmallWitness(), SmallWitness("silent.example")
    good.knows(party.keys.signer.key_of(origin_of(party.keys.root, OWN_LOG, 1)).text())
    with good.served() as url, socket.create_server(("127.0.0.1", 0)) as hangs:
        listed = [
            RecordWitness("silent", f"http://127.0.0.1:{hangs.getsockname()[1]}", read_note_key(silent.vkey)),
            RecordWitness("good", url, read_note_key(good.vkey)),
        ]
        foreign = ForeignWitnesses(
            party.context, [(one.name, one.key) for one in listed], lambda: party.keys.signer, has_signed,
            lambda: party.passed,
        )  # fmt: skip
        party.cosigning.others = foreign
        # Only the one that hangs is left soon: on a busy machine, the other one may take longer for its answer.
        send, leave_soon, seen = sending_to(listed, SECONDS), sending_to(listed, 0.2), []

        def hangs_until_the_other_one_is_heard(offer: ForeignOffer) -> tuple[int, str]:
            if offer.name == "silent":
                eventually(lambda: foreign.heard()[0] == 1)
                seen.append(party.cosigning.has_asked)
                return leave_soon(offer)
            return send(offer)

        may_work = [False]
        rounds = ForeignRounds(foreign, hangs_until_the_other_one_is_heard, lambda: may_work[0], lambda: None)
        rounds.step()
        assert good.seen == []
        may_work[0] = True
        party.cosigning.look()
        rounds.step()
        assert seen == [False]
        assert foreign.heard() == (1, 1)
        assert party.cosigning.has_asked         # so nothing else waits for the one that hangs
    rounds._end()
