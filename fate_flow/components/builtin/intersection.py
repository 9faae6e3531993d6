"""Intersection: the rows whose ids every party holds, by private set intersection (PSI).

The protocol (ECDH, from the library openmined.psi; one guest, one host or more):

1. With each host the guest runs a PSI as client, with all of its ids: the guest learns G ∩ H_i. The ids that it has in
   common with all hosts are the final set F.
2. With each host it runs a second PSI in which the guest is the server, with F only, and the host is the client, with
   all of its ids. The host learns F ∩ H_i, which is F, because F is a subset of H_i.

If the hosts must not learn F (`sync_intersect_ids: false`), there is no second step. If the parties may learn only a
number (`cardinality_only: true`, one host), the host answers the first step in random order, which the library offers.
Then the guest learns |G ∩ H|; the host learns nothing, unless the guest sends it the number
(`sync_cardinality: true`). If the parameters of host and guest differ, the task ends with an error.

The guarantees hold if every party follows the protocol, even if it looks at everything it has seen (semi-honest):
- No party learns an id that it does not hold itself.
- The guest learns its intersection with each host; a host learns F, and nothing else about which party holds which id.
- Each party learns the approximate number of ids of its counterparts (rounded up by the dummies below) and the size
  of F.
Hosts that combine what they saw learn no more than one of them: the guest sends the same points to all of them.

A host may let nothing leave of an intersection below a least size (`least_intersection` of its grants). It then counts
the common ids before the guest can. For this the guest blinds the host's points, too, and returns them in another
order; in both, the common ids are the same points, blinded with both keys. The guest cannot make the number larger
without ids that the host has, because these are the points that it will find its own ids with. So this host learns the
size of its own intersection with the guest. If there are several hosts, each such host is also asked before F goes to
the others. All that others learn of a refusal is that the size is below the least one. A guest with such a limit sends
nothing of F.

There is no protection against a party that lies about its ids: if it includes guessed ids, it learns which of them the
others hold, as with any intersection. No id and no hash of an id is sent, because hashes of likely ids could be tried
out. Every point that is sent is blinded with a key that was made for this task and is never stored.

Ids are shuffled before every message, so that positions reveal nothing. Two threads must not use one key object at the
same time (the library's cipher is not thread-safe), so each thread makes its own object from the bytes of the key. The
library releases the interpreter lock while it computes.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from random import SystemRandom

import private_set_intersection.python as psi
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from fate_flow.components.base.errors import ComponentError, ExchangeError
from fate_flow.components.base.exchange import Channel
from fate_flow.components.providers.intersection_parameters import Disclosure, disclosure_of
from fate_flow.components.tables.table import Row, Schema, Table, TableWriter
from fate_flow.components.worker.task import Metric, Outcome, TaskContext
from fate_flow.core.model.spec import Party

log = logging.getLogger(__name__)

BLOCK = 16
"""Sets are padded with dummies to the next multiple of this number, with at least one dummy."""

FIRST_SETUP, FIRST_REQUEST, FIRST_ANSWER = "psi.setup", "psi.request", "psi.answer"
FINAL_SETUP, FINAL_REQUEST, FINAL_ANSWER = "final.setup", "final.request", "final.answer"
COUNT = "count"
SIZE, FINAL_SIZE, FINAL_CONSENT = "size", "final.size", "final.consent"
SIZE_WANTED = b"size?"
"""Comes before the first answer, in its topic, if the host has to know the size of the intersection first."""


@dataclass(frozen=True)
class Limit:
    """The least size of an intersection that may leave a party; 0: any size."""

    party: Party
    least: int = 0
    has_other_hosts: bool = False

    def check(self, size: int) -> None:
        """Raise ComponentError if the size is too small. Other parties read its message, so it has no number."""
        if size < self.least:
            log.error("%s ids are common, of fewer than %s nothing may leave (grants)", size, self.least)
            raise ComponentError(f"{self.party} lets nothing leave of an intersection of so few ids")


def run(task: TaskContext) -> Outcome:
    """Write this party's rows of the ids that all parties hold, in ascending order of the ids.

    There is no output and no number if this party must not learn them."""
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
    ids: Collection[str], hosts: Sequence[Party], channel: Channel, threads: int, is_shared: bool = True,
    limit: Limit | None = None,
) -> set[str]:  # fmt: skip
    """Return the ids that this guest and all hosts hold; if `is_shared`, the hosts learn them, too.

    Raises ComponentError if a limit of this party or of a host does not allow that."""
    guest = _Guest(ids, channel, is_shared)
    log.info("blinded %s ids", len(ids))
    for host in hosts:   # all requests first, so that the hosts compute in parallel
        channel.push(FIRST_REQUEST, host, guest.request)
    with ThreadPoolExecutor(max_workers=min(threads, len(hosts))) as pool:
        pairwise = list(pool.map(guest.meet, hosts))
    final = set(ids).intersection(*pairwise)
    if not is_shared:
        return final
    if limit is not None:
        limit.check(len(final))
    if len(hosts) > 1:
        guest.ask_for_consent(len(final))
    setup = guest.final_setup(final)
    for host in hosts:
        channel.push(FINAL_SETUP, host, setup)
    return final


def meet_as_host(
    ids: Collection[str], guest: Party, channel: Channel, is_shared: bool = True, limit: Limit | None = None
) -> set[str] | None:
    """Return the ids of this host that all parties hold, by the guest's messages; None if they are not shared.

    Raises ComponentError if there are fewer than the limit allows to leave."""
    _answer_first(psi.server.CreateWithNewKey(True), ids, guest, channel, limit)
    if not is_shared:
        return None
    client, elements = psi.client.CreateWithNewKey(True), _elements(ids)
    # The request does not depend on the guest's result, so it is sent now; the guest answers while others compute.
    channel.push(FINAL_REQUEST, guest, client.CreateRequest(elements).SerializeToString())
    log.info("answered %s, waiting for what all have in common", guest)
    if limit is not None and limit.least and limit.has_other_hosts:
        _consent(limit, guest, channel)
    answer = channel.pop(FINAL_ANSWER, guest)
    setup = channel.pop(FINAL_SETUP, guest)
    return _shared(client, elements, setup, answer, guest)


def count_as_guest(
    ids: Collection[str], host: Party, channel: Channel, is_shared: bool, limit: Limit | None = None
) -> int:
    """Return how many ids both the guest and the host hold; if `is_shared`, the host learns it, too.

    Raises ComponentError as `meet_as_guest`."""
    client, elements = psi.client.CreateWithNewKey(False), _elements(ids)
    channel.push(FIRST_REQUEST, host, client.CreateRequest(elements).SerializeToString())
    setup = channel.pop(FIRST_SETUP, host)
    answer, _ = _first_answer(client.GetPrivateKeyBytes(), setup, host, channel, is_shared)
    with _blaming(host):
        response = _response(answer, len(elements))
        count: int = client.GetIntersectionSize(psi.ServerSetup.FromString(setup), response)
    if is_shared:
        if limit is not None:
            limit.check(count)
        channel.push(COUNT, host, str(count).encode())
    return count


def count_as_host(
    ids: Collection[str], guest: Party, channel: Channel, is_shared: bool, limit: Limit | None = None
) -> int | None:
    """Return the number of common ids that the guest sends; None if it is not shared.

    Raises ComponentError as `meet_as_host`."""
    _answer_first(psi.server.CreateWithNewKey(False), ids, guest, channel, limit)
    if not is_shared:
        return None
    with _blaming(guest):
        return int(channel.pop(COUNT, guest))


def _answer_first(
    server: psi.server, ids: Collection[str], guest: Party, channel: Channel, limit: Limit | None
) -> None:
    """Do the host's part of the first step. It fails if server and client differ in what they reveal, or if fewer ids
    are common than may leave."""
    setup = _setup(server, ids)
    channel.push(FIRST_SETUP, guest, setup)
    log.info("blinded %s ids, waiting for those of %s", len(ids), guest)
    answer = _answered(server, channel.pop(FIRST_REQUEST, guest), guest)
    if limit is not None and limit.least:
        channel.push(FIRST_ANSWER, guest, SIZE_WANTED)
        limit.check(_size(setup, answer, channel.pop(SIZE, guest), guest))
    channel.push(FIRST_ANSWER, guest, answer)


def _size(setup: bytes, answer: bytes, returned: bytes, guest: Party) -> int:
    """Return how many ids are common: the points of the guest that this host has blinded, too, are among its own points
    that the guest has blinded, too."""
    with _blaming(guest):
        own = _response(returned, len(psi.ServerSetup.FromString(setup).raw.encrypted_elements))
        return len(set(own.encrypted_elements) & set(psi.Response.FromString(answer).encrypted_elements))


def _first_answer(
    key: bytes, setup: bytes, host: Party, channel: Channel, is_shared: bool
) -> tuple[bytes, bool]:
    """Return the host's answer in the first step, and whether it had to know the size before. `key`: the client's."""
    answer = channel.pop(FIRST_ANSWER, host)
    if answer != SIZE_WANTED:
        return answer, False
    if not is_shared:
        raise ComponentError(
            f"{host} lets an intersection leave only if it knows its size, and the parameters keep that from it "
            "(sync_intersect_ids, sync_cardinality)"
        )
    with _blaming(host):
        request = psi.Request(reveal_intersection=False)
        request.encrypted_elements.extend(psi.ServerSetup.FromString(setup).raw.encrypted_elements)
        # This server answers in an order that tells the host nothing about which of its ids are common.
        returned = psi.server.CreateFromKey(key, False).ProcessRequest(request).SerializeToString()
    channel.push(SIZE, host, returned)
    return channel.pop(FIRST_ANSWER, host), True


def _consent(limit: Limit, guest: Party, channel: Channel) -> None:
    """Answer the guest whether what all parties have in common may go to the other hosts."""
    with _blaming(guest):
        size = int(channel.pop(FINAL_SIZE, guest))
    channel.push(FINAL_CONSENT, guest, b"yes" if size >= limit.least else b"no")
    limit.check(size)


class _Guest:
    """The guest's keys and its request, which is the same for all hosts."""

    def __init__(self, ids: Collection[str], channel: Channel, is_shared: bool) -> None:
        self._channel = channel
        self._is_shared = is_shared
        self._elements = _elements(ids)
        client = psi.client.CreateWithNewKey(True)
        self._asks: set[Party] = set()       # hosts that have to know sizes
        self._client_key: bytes = client.GetPrivateKeyBytes()
        self._server_key: bytes = psi.server.CreateWithNewKey(True).GetPrivateKeyBytes()
        self.request: bytes = client.CreateRequest(self._elements).SerializeToString()

    def meet(self, host: Party) -> set[str]:
        """Return the ids shared with this host, and answer its second request. Any thread may call this."""
        setup = self._channel.pop(FIRST_SETUP, host)
        answer, has_asked = _first_answer(self._client_key, setup, host, self._channel, self._is_shared)
        if has_asked:
            self._asks.add(host)
        client = psi.client.CreateFromKey(self._client_key, True)
        shared = _shared(client, self._elements, setup, answer, host)
        if self._is_shared:
            self._answer_final(host)
        log.info("met %s", host)
        return shared

    def _answer_final(self, host: Party) -> None:
        server = psi.server.CreateFromKey(self._server_key, True)
        request = self._channel.pop(FINAL_REQUEST, host)
        # The host cannot use this answer before it has the setup message of the final set.
        self._channel.push(FINAL_ANSWER, host, _answered(server, request, host))

    def ask_for_consent(self, size: int) -> None:
        """Ask the hosts that have to know sizes whether the final set may go to the other hosts.

        Raises ComponentError."""
        for host in sorted(self._asks):
            self._channel.push(FINAL_SIZE, host, str(size).encode())
        for host in sorted(self._asks):
            if self._channel.pop(FINAL_CONSENT, host) != b"yes":
                raise ComponentError(f"{host} lets nothing leave of an intersection of so few ids")

    def final_setup(self, final: Collection[str]) -> bytes:
        """Return the message by which the hosts find their ids in the final set; the same for all hosts."""
        return _setup(psi.server.CreateFromKey(self._server_key, True), final)


def _setup(server: psi.server, ids: Collection[str]) -> bytes:
    elements = _elements(ids)
    # The false positive rate and the number of requests only matter for compressed structures, not for RAW.
    message: bytes = server.CreateSetupMessage(1e-9, 1, elements, psi.DataStructure.RAW).SerializeToString()
    return message


def _answered(server: psi.server, request: bytes, sender: Party) -> bytes:
    with _blaming(sender):
        answer: bytes = server.ProcessRequest(psi.Request.FromString(request)).SerializeToString()
    return answer


def _shared(client: psi.client, elements: Sequence[str], setup: bytes, answer: bytes, sender: Party) -> set[str]:
    """Return the ids, without dummies, that the client shares with the sender of these messages."""
    with _blaming(sender):
        found = client.GetIntersection(psi.ServerSetup.FromString(setup), _response(answer, len(elements)))
        return {elements[index][1:] for index in found}


def _response(answer: bytes, length: int) -> psi.Response:
    """Read the answer to a request of this length. Raises ValueError if it has another length."""
    response = psi.Response.FromString(answer)
    if len(response.encrypted_elements) != length:
        raise ValueError("the answer is not as long as the request")
    return response


def _elements(ids: Collection[str]) -> list[str]:
    """Return the ids as elements of a set, in random order, with dummies among them.

    Dummies hide the exact size of small sets, and whether a set is empty (the library would send an empty message for
    it). They cannot be confused with ids: an id begins with "=", a dummy with "~", and no other party draws the same
    256 random bits.
    """
    dummies = BLOCK - len(ids) % BLOCK
    elements = [f"={sid}" for sid in ids] + [f"~{secrets.token_hex(32)}" for _ in range(dummies)]
    SystemRandom().shuffle(elements)
    return elements


@contextmanager
def _blaming(sender: Party) -> Iterator[None]:
    """Turn the library's errors about a broken message into an error that names the sender."""
    try:
        yield
    except (RuntimeError, DecodeError, ValueError, IndexError) as error:
        raise ExchangeError(f"{sender} sent a message that does not belong to this protocol") from error


def _meet(task: TaskContext, ids: Collection[str], disclosure: Disclosure) -> set[str] | None:
    guest, hosts = _seats(task)
    is_shared, limit = disclosure.ids_are_shared, _limit(task, hosts)
    if task.me == guest:
        return meet_as_guest(ids, hosts, task.open_channel(), task.cores, is_shared, limit)
    return meet_as_host(ids, guest, task.open_channel(), is_shared, limit)


def _limit(task: TaskContext, hosts: Sequence[Party]) -> Limit:
    return Limit(task.me, task.least_intersection, has_other_hosts=len(hosts) > 1)


def _count(task: TaskContext, ids: Collection[str], disclosure: Disclosure) -> int | None:
    guest, hosts = _seats(task)
    if len(hosts) > 1:
        raise ComponentError(f"cardinality_only works with one host, not with {len(hosts)}")
    is_shared, limit = disclosure.count_is_shared, _limit(task, hosts)
    if task.me == guest:
        return count_as_guest(ids, hosts[0], task.open_channel(), is_shared, limit)
    return count_as_host(ids, guest, task.open_channel(), is_shared, limit)


def _seats(task: TaskContext) -> tuple[Party, Sequence[Party]]:
    guests, hosts = task.parties_of("guest"), task.parties_of("host")
    if len(guests) != 1 or not hosts:
        raise ComponentError(f"Intersection needs one guest and a host, not {len(guests)} and {len(hosts)}")
    return guests[0], hosts


def _write(task: TaskContext, table: Table, common: Sequence[str]) -> dict[str, str]:
    """Write the output, if the job has one; with `only_output_key`, only the ids."""
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
    """Return the outcome; `count` is None if this party does not know it."""
    if count is None:
        return Outcome(written)
    rate = count / own if own else 0.0
    metric = Metric(
        "train", "intersection", [("intersect_count", count), ("intersect_rate", rate)],
        {"name": "intersection", "metric_type": "INTERSECTION"},
    )
    return Outcome(written, [metric], {"intersect_count": count, "intersect_rate": rate})
