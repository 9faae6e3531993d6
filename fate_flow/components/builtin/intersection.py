"""Intersection: the rows whose ids every party holds, by private set intersection.

The protocol (ECDH, from the library openmined.psi; one guest, one host or more):

1. With each host the guest runs a PSI as its client over all of its ids: the guest learns G ∩ H_i. What all hosts
   have in common with it is the final set F.
2. With each host it runs a second PSI with the roles turned round: the guest serves F alone, the host is the client
   with all of its ids: the host learns F ∩ H_i, and that is F, since F lies in H_i.

Where the hosts are not to learn F (`sync_intersect_ids: false`) there is no second step. Where nobody is to learn more
than a number (`cardinality_only: true`, one host) the host answers in the first in an order that says nothing, as the
library offers it: the guest learns |G ∩ H|, the host nothing, unless the guest tells it that number
(`sync_cardinality: true`). A host and a guest that were told differently end with an error.

What is safe, as long as every party follows the protocol (semi-honest) and may afterwards look at all it has seen:
- nobody learns an id that it does not hold itself;
- the guest learns its intersection with each host, a host learns F and nothing else about who holds what;
- everybody learns about how many ids its counterparts have (rounded up by the dummies below), and the size of F.
Hosts that pool what they saw learn no more than one of them: the guest shows them the same points twice.
What is not promised: a party that lies about its ids (puts in ids it guesses) learns which of its guesses the others
hold, as with any intersection. No id crosses, nor a hash of one: whoever has a list of likely ids could try those out.
Every point that crosses is blinded with a key that was made for this task and is never stored.

Ids are shuffled before every message, so that a position says nothing. A shared key must not be used by two threads
at once (the library's cipher is not thread-safe), so each thread makes its own object from the key's bytes. The library
releases the interpreter lock while it computes.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import SystemRandom

import private_set_intersection.python as psi
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from fate_flow.components.base.errors import ComponentError, ExchangeError
from fate_flow.components.base.exchange import Channel
from fate_flow.components.tables.table import Row, Schema, Table, TableWriter
from fate_flow.components.worker.intersection_parameters import Disclosure, disclosure_of
from fate_flow.components.worker.task import Metric, Outcome, TaskContext
from fate_flow.core.model.spec import Party

log = logging.getLogger(__name__)

BLOCK = 16
"""Sets are filled up with dummies to the next multiple of this, by one dummy at least."""

FIRST_SETUP, FIRST_REQUEST, FIRST_ANSWER = "psi.setup", "psi.request", "psi.answer"
FINAL_SETUP, FINAL_REQUEST, FINAL_ANSWER = "final.setup", "final.request", "final.answer"
COUNT = "count"


def run(task: TaskContext) -> Outcome:
    """The output holds this party's rows of the ids that all parties hold, in ascending order of the ids.

    No output, and no number, where this party is not to learn it."""
    disclosure = disclosure_of(task.parameters)
    with task.input_table() as table:
        ids = list(table.ids())
        log.info("intersect %s ids with %s other parties", len(ids), len(task.others))
        if disclosure.count_only:
            return _outcome(_count(task, ids, disclosure), len(ids), {})
        common = _meet(task, ids, disclosure)
        if common is None:
            log.info("what is common is for the guest alone to know (sync_intersect_ids)")
            return _outcome(None, len(ids), {})
        log.info("intersect_count: %s of %s", len(common), len(ids))
        written = _write(task, table, sorted(common))
    return _outcome(len(common), len(ids), written)


def meet_as_guest(
    ids: Collection[str], hosts: Sequence[Party], channel: Channel, threads: int, is_shared: bool = True
) -> set[str]:
    """The ids that this guest and all hosts hold; the hosts learn them, too, when that is shared."""
    guest = _Guest(ids, channel, is_shared)
    log.info("blinded %s ids", len(ids))
    for host in hosts:   # all of them first, so that they compute side by side
        channel.push(FIRST_REQUEST, host, guest.request)
    with ThreadPoolExecutor(max_workers=min(threads, len(hosts))) as pool:
        pairwise = list(pool.map(guest.meet, hosts))
    final = set(ids).intersection(*pairwise)
    if not is_shared:
        return final
    setup = guest.final_setup(final)
    for host in hosts:
        channel.push(FINAL_SETUP, host, setup)
    return final


def meet_as_host(ids: Collection[str], guest: Party, channel: Channel, is_shared: bool = True) -> set[str] | None:
    """The ids that the guest says all parties hold, out of this host's own; None when it says nothing of that."""
    _answer_first(psi.server.CreateWithNewKey(True), ids, guest, channel)
    if not is_shared:
        return None
    client, elements = psi.client.CreateWithNewKey(True), _elements(ids)
    # Does not depend on what the guest found: it goes ahead, and the guest answers it while others still compute.
    channel.push(FINAL_REQUEST, guest, client.CreateRequest(elements).SerializeToString())
    log.info("answered %s, waiting for what all have in common", guest)
    answer = channel.pop(FINAL_ANSWER, guest)
    setup = channel.pop(FINAL_SETUP, guest)
    return _shared(client, elements, setup, answer, guest)


def count_as_guest(ids: Collection[str], host: Party, channel: Channel, is_shared: bool) -> int:
    """How many ids this guest and the host hold both; the host learns that, too, when it is shared."""
    client, elements = psi.client.CreateWithNewKey(False), _elements(ids)
    channel.push(FIRST_REQUEST, host, client.CreateRequest(elements).SerializeToString())
    setup, answer = channel.pop(FIRST_SETUP, host), channel.pop(FIRST_ANSWER, host)
    with _blaming(host):
        response = _response(answer, len(elements))
        count: int = client.GetIntersectionSize(psi.ServerSetup.FromString(setup), response)
    if is_shared:
        channel.push(COUNT, host, str(count).encode())
    return count


def count_as_host(ids: Collection[str], guest: Party, channel: Channel, is_shared: bool) -> int | None:
    """What the guest says of how many ids both hold; None when it says nothing of that."""
    _answer_first(psi.server.CreateWithNewKey(False), ids, guest, channel)
    if not is_shared:
        return None
    with _blaming(guest):
        return int(channel.pop(COUNT, guest))


def _answer_first(server: psi.server, ids: Collection[str], guest: Party, channel: Channel) -> None:
    """The host's part in the first step. A server and a client that differ in what is revealed do not go together."""
    channel.push(FIRST_SETUP, guest, _setup(server, ids))
    log.info("blinded %s ids, waiting for those of %s", len(ids), guest)
    channel.push(FIRST_ANSWER, guest, _answered(server, channel.pop(FIRST_REQUEST, guest), guest))


class _Guest:
    """The guest's keys and its one request, which is the same for all hosts."""

    def __init__(self, ids: Collection[str], channel: Channel, is_shared: bool) -> None:
        self._channel = channel
        self._is_shared = is_shared
        self._elements = _elements(ids)
        client = psi.client.CreateWithNewKey(True)
        self._client_key: bytes = client.GetPrivateKeyBytes()
        self._server_key: bytes = psi.server.CreateWithNewKey(True).GetPrivateKeyBytes()
        self.request: bytes = client.CreateRequest(self._elements).SerializeToString()

    def meet(self, host: Party) -> set[str]:
        """The ids shared with this host; its second request is answered on the way. For any thread."""
        setup = self._channel.pop(FIRST_SETUP, host)
        answer = self._channel.pop(FIRST_ANSWER, host)
        client = psi.client.CreateFromKey(self._client_key, True)
        shared = _shared(client, self._elements, setup, answer, host)
        if self._is_shared:
            self._answer_final(host)
        log.info("met %s", host)
        return shared

    def _answer_final(self, host: Party) -> None:
        server = psi.server.CreateFromKey(self._server_key, True)
        request = self._channel.pop(FINAL_REQUEST, host)
        # Of no use to the host before it has the setup message of the final set.
        self._channel.push(FINAL_ANSWER, host, _answered(server, request, host))

    def final_setup(self, final: Collection[str]) -> bytes:
        """What lets the hosts see which of their ids are final; the same for all of them."""
        return _setup(psi.server.CreateFromKey(self._server_key, True), final)


def _setup(server: psi.server, ids: Collection[str]) -> bytes:
    elements = _elements(ids)
    # The rate of false positives and the number of requests matter to compressed structures only, not to RAW.
    message: bytes = server.CreateSetupMessage(1e-9, 1, elements, psi.DataStructure.RAW).SerializeToString()
    return message


def _answered(server: psi.server, request: bytes, sender: Party) -> bytes:
    with _blaming(sender):
        answer: bytes = server.ProcessRequest(psi.Request.FromString(request)).SerializeToString()
    return answer


def _shared(client: psi.client, elements: Sequence[str], setup: bytes, answer: bytes, sender: Party) -> set[str]:
    """The ids, without dummies, that the client turns out to share with the sender of these messages."""
    with _blaming(sender):
        found = client.GetIntersection(psi.ServerSetup.FromString(setup), _response(answer, len(elements)))
        return {elements[index][1:] for index in found}


def _response(answer: bytes, length: int) -> psi.Response:
    """Raises ValueError for an answer to another request."""
    response = psi.Response.FromString(answer)
    if len(response.encrypted_elements) != length:
        raise ValueError("the answer is not as long as the request")
    return response


def _elements(ids: Collection[str]) -> list[str]:
    """The ids as elements of a set, in random order and with dummies among them.

    Dummies keep small sets from being told apart, and an empty one from being recognised (the library would send an
    empty message for it). They cannot be taken for an id: an id begins with "=", a dummy with "~", and no other party
    draws the same 256 bits.
    """
    dummies = BLOCK - len(ids) % BLOCK
    elements = [f"={sid}" for sid in ids] + [f"~{secrets.token_hex(32)}" for _ in range(dummies)]
    SystemRandom().shuffle(elements)
    return elements


@contextmanager
def _blaming(sender: Party) -> Iterator[None]:
    """Turns what the library says of a broken message into an error that names who sent it."""
    try:
        yield
    except (RuntimeError, DecodeError, ValueError, IndexError) as error:
        raise ExchangeError(f"{sender} sent a message that does not belong to this protocol") from error


def _meet(task: TaskContext, ids: Collection[str], disclosure: Disclosure) -> set[str] | None:
    guest, hosts = _seats(task)
    if task.me == guest:
        return meet_as_guest(ids, hosts, task.open_channel(), task.cores, disclosure.ids_are_shared)
    return meet_as_host(ids, guest, task.open_channel(), disclosure.ids_are_shared)


def _count(task: TaskContext, ids: Collection[str], disclosure: Disclosure) -> int | None:
    guest, hosts = _seats(task)
    if len(hosts) > 1:
        raise ComponentError(f"cardinality_only works with one host, not with {len(hosts)}")
    if task.me == guest:
        return count_as_guest(ids, hosts[0], task.open_channel(), disclosure.count_is_shared)
    return count_as_host(ids, guest, task.open_channel(), disclosure.count_is_shared)


def _seats(task: TaskContext) -> tuple[Party, Sequence[Party]]:
    guests, hosts = task.parties_of("guest"), task.parties_of("host")
    if len(guests) != 1 or not hosts:
        raise ComponentError(f"Intersection needs one guest and a host, not {len(guests)} and {len(hosts)}")
    return guests[0], hosts


def _write(task: TaskContext, table: Table, common: Sequence[str]) -> dict[str, str]:
    """Writes the output, if anybody wants it; the ids alone where `only_output_key` says so."""
    uri = task.outputs.get("data")
    if uri is None:
        return {}
    has_ids_alone = bool(task.parameters.get("only_output_key"))
    schema = Schema((), table.schema.sid) if has_ids_alone else table.schema
    rows: Iterable[Row] = ((sid,) for sid in common) if has_ids_alone else table.rows_of(common)
    with TableWriter(uri, schema, made_by=task.task_id, overwrite=True) as writer:
        writer.add(rows)
    return {"data": uri}


def _outcome(count: int | None, own: int, written: dict[str, str]) -> Outcome:
    """`count` is None where this party does not know it."""
    if count is None:
        return Outcome(written)
    rate = count / own if own else 0.0
    metric = Metric(
        "train", "intersection", [("intersect_count", count), ("intersect_rate", rate)],
        {"name": "intersection", "metric_type": "INTERSECTION"},
    )
    return Outcome(written, [metric], {"intersect_count": count, "intersect_rate": rate})
