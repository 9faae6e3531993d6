"""The use cases behind the HTTP routes, each in one unit of work. A request handler holds no state."""

from __future__ import annotations

import time
from collections.abc import Callable

from fate_flow.services.context.ports import Context
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.call_back import Reach, reaches_all
from fate_flow.services.participant.participant import Participant
from fate_flow.services.participant.stream_calls import StreamCalls
from fate_flow.services.use_cases.approvals import Approvals
from fate_flow.services.use_cases.jobs import Jobs
from fate_flow.services.use_cases.models import StoredModels
from fate_flow.services.use_cases.party_commands import PartyCommands
from fate_flow.services.use_cases.permissions import Permissions
from fate_flow.services.use_cases.queue import Queue
from fate_flow.services.use_cases.results import Results
from fate_flow.services.use_cases.streams import StreamChecks
from fate_flow.services.use_cases.submits import Submits
from fate_flow.services.use_cases.tables import Tables
from fate_flow.services.use_cases.units import Units, Wake


class UseCases:
    """The use cases that other servers and clients reach over HTTP, grouped by subject."""

    def __init__(
        self, context: Context, wake: Wake, waiting_submits: int, submit_timeout: float,
        monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
        reach: Reach = reaches_all, opens: StreamCalls | None = None,
    ) -> None:  # fmt: skip
        """`reach` tests whether this party can reach another one that asks to be called back; `opens`, whether it can
        open the streams of a job; None: it can."""
        party = Participant()
        initiator = Coordinator(party)
        units = Units(context, wake)
        opens = opens or StreamCalls()
        self.commands = PartyCommands(units, party, initiator, reach, opens)
        self.submits = Submits(units, initiator, opens, waiting_submits, submit_timeout, monotonic, sleep)
        self.jobs = Jobs(units, initiator)
        self.queue = Queue(units, initiator)
        self.approvals = Approvals(units)
        self.permissions = Permissions(units)
        self.tables = Tables(units)
        self.results = Results(units)
        self.models = StoredModels(units)
        self.streams = StreamChecks(units)
