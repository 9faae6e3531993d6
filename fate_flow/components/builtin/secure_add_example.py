"""SecureAddExample: guest and host each hold `data_num` ones, and add them up without showing them.

`flow test toy` runs it to test that two parties can communicate. Its client prints the lines of the guest's INFO.log
that contain `secure_add_guest`; the wording of those lines is FATE's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fate_flow.components.base.errors import ComponentError, ExchangeError
from fate_flow.components.base.exchange import Channel
from fate_flow.components.builtin.shares import joined, pack, signed, split_in_two, unpack
from fate_flow.components.worker.task import Metric, Outcome, TaskContext
from fate_flow.core.model.spec import Party

log = logging.getLogger(__name__)

DEFAULT_DATA_NUM = 1000
SHARE, HOST_SUM = "add.share", "add.host_sum"


def run(task: TaskContext) -> Outcome:
    """Compute the sum at the guest, which also checks it; the host returns nothing."""
    guests, hosts = task.parties_of("guest"), task.parties_of("host")
    if len(guests) != 1 or len(hosts) != 1:
        raise ComponentError(
            f"SecureAddExample needs exactly one guest and one host, not {len(guests)} and {len(hosts)}"
        )
    ones = [1] * (task.parameters.get("data_num") or DEFAULT_DATA_NUM)
    if task.me == hosts[0]:
        secure_add_host(ones, guests[0], task.open_channel())
        return Outcome()
    total = secure_add_guest(ones, hosts[0], task.open_channel())
    metric = Metric("train", "secure_add", [("secure_sum", total)], {"name": "secure_add", "metric_type": "SECURE_ADD"})
    return Outcome({}, [metric], {"secure_sum": total})


def secure_add_guest(data: Sequence[int], host: Party, channel: Channel) -> int:
    """Return the sum of both parties' data. Raises ComponentError if it is not the number of ones."""
    _say_at_guest("begin to make guest data")
    kept, given = split_in_two(data)
    _say_at_guest("split data into multiple random parts")
    channel.push(SHARE, host, pack(given))
    _say_at_guest("share one random part data to host")
    received = _receive(channel, SHARE, host, len(data))
    _say_at_guest("get share of one random part data from host")
    own = joined([*kept, *received])
    _say_at_guest("begin to get sum of guest and host")
    total = signed(joined([own, *_receive(channel, HOST_SUM, host, 1)]))
    _say_at_guest("receive host sum from guest")
    if total != 2 * len(data):
        raise ComponentError(f"the sum is {total}, {2 * len(data)} was expected")
    _say_at_guest(f"success to calculate secure_sum, it is {total}")
    return total


def secure_add_host(data: Sequence[int], guest: Party, channel: Channel) -> None:
    """Share the data with the guest, and send it the sum of the shares that are here."""
    log.info("secure_add_host: begin to make host data")
    kept, given = split_in_two(data)
    channel.push(SHARE, guest, pack(given))
    log.info("secure_add_host: share one random part data to guest")
    received = _receive(channel, SHARE, guest, len(data))
    channel.push(HOST_SUM, guest, pack([joined([*kept, *received])]))
    log.info("secure_add_host: send host sum to guest")


def _say_at_guest(message: str) -> None:
    log.info("secure_add_guest: %s", message, stacklevel=2)


def _receive(channel: Channel, topic: str, frm: Party, count: int) -> list[int]:
    message = channel.pop(topic, frm)
    try:
        shares = unpack(message)
    except ValueError as error:
        raise ExchangeError(f"{frm} sent a message that does not belong to this protocol") from error
    if len(shares) != count:
        raise ComponentError(f"data_num: {frm} has {len(shares)} numbers, this party {count}; both need the same")
    return shares
