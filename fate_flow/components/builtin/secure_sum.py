"""SecureSum: the total of a column over all parties, where no party shows its own sum.

Each party adds up its own column exactly, splits the sum into additive shares modulo 2**128 (shares.py), keeps one
share, and sends one to each other party. Each party adds up the shares that it holds, and sends this partial sum to all
others; the partial sums add up to the total. The protocol is for semi-honest parties: apart from the total, all that a
party sees of the others is uniformly random, even if all but two parties combine what they saw. With two parties, the
total minus one's own sum is of course the sum of the other.

A party whose grants have a least size sends nothing if it has fewer rows than that.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException, Inexact, InvalidOperation

from fate_flow.components.base.errors import ComponentError, ExchangeError, shown
from fate_flow.components.base.exchange import Channel
from fate_flow.components.builtin.shares import MODULUS, SHARE_BYTES, joined, pack, signed, split, unpack
from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.worker.task import Metric, Outcome, TaskContext
from fate_flow.core.model.spec import Party

log = logging.getLogger(__name__)

DEFAULT_PRECISION = 2
SHARE, PARTIAL = "sum.share", "sum.partial"

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
EXACT = Context(prec=200, traps=[Inexact, InvalidOperation])
"""A context that never rounds: 200 digits hold every sum that fits into the modulus, with many decimals."""


def run(task: TaskContext) -> Outcome:
    """Compute the total, which is the same at every party; no party learns anything else."""
    precision = task.parameters.get("precision")
    precision = DEFAULT_PRECISION if precision is None else precision
    with task.input_table() as table:
        if table.count < task.least_intersection:
            log.error("%s rows, of fewer than %s nothing may leave (grants)", table.count, task.least_intersection)
            raise ComponentError(f"{task.me} lets no sum of so few rows leave")
        own = scaled_sum(table.column(task.parameters["column"]), precision)
        log.info("added up %s rows", table.count)
    _check_range(own, len(task.parties))
    total = total_over_parties(own, precision, task.others, task.open_channel())
    text = f"{Decimal(total).scaleb(-precision, EXACT):f}"
    log.info("secure sum over %s parties: %s", len(task.parties), text)
    metric = Metric("train", "secure_sum", [("total", text)], {"name": "secure_sum", "metric_type": "SECURE_SUM"})
    return Outcome(_write(task, text), [metric], {"total": text})


def scaled_sum(values: Iterable[str], precision: int) -> int:
    """Return the exact sum times 10**precision; a remaining fraction is rounded once, half to even."""
    total = Decimal(0)
    for row, value in enumerate(values, 1):
        if not NUMBER.fullmatch(value):
            log.error("row %s: %s is not a number", row, shown(value))   # stays in this party's own log
            raise ComponentError(f"row {row} of the input holds something that is not a number")
        try:
            total = EXACT.add(total, EXACT.create_decimal(value))
        except DecimalException as error:
            raise ComponentError(f"row {row} of the input holds a number with too many digits") from error
    return int(total.scaleb(precision, EXACT).to_integral_value(ROUND_HALF_EVEN))


def total_over_parties(own: int, precision: int, others: Iterable[Party], channel: Channel) -> int:
    """Return the sum of `own` over all parties."""
    others = tuple(others)
    kept, *given = split(own % MODULUS, len(others) + 1)
    for party, share in zip(others, given, strict=True):
        _send(channel, SHARE, party, share, precision)
    partial = joined([kept, *(_receive(channel, SHARE, party, precision) for party in others)])
    for party in others:
        _send(channel, PARTIAL, party, partial, precision)
    return signed(joined([partial, *(_receive(channel, PARTIAL, party, precision) for party in others)]))


def _send(channel: Channel, topic: str, to: Party, share: int, precision: int) -> None:
    # The precision is sent along, because sums of different scales would add up to a wrong total without an error.
    channel.push(topic, to, bytes([precision]) + pack([share]))


def _receive(channel: Channel, topic: str, frm: Party, precision: int) -> int:
    message = channel.pop(topic, frm)
    if len(message) != 1 + SHARE_BYTES:
        raise ExchangeError(f"{frm} sent a message that does not belong to this protocol")
    if message[0] != precision:
        raise ComponentError(f"precision: {frm} has {message[0]} decimals, this party {precision}; all need the same")
    return unpack(message[1:])[0]


def _check_range(own: int, parties: int) -> None:
    """Check that the total stays in the range of signed numbers, whatever the other sums are. Raises ComponentError."""
    if abs(own) >= MODULUS // 2 // parties:
        raise ComponentError("the sum of the column is too large, or precision is: 37 digits in all are possible")


def _write(task: TaskContext, total: str) -> dict[str, str]:
    """Write the output, if the job has one."""
    uri = task.outputs.get("data")
    if uri is None:
        return {}
    with TableWriter(uri, Schema(("value",)), made_by=task.task_id, overwrite=True) as writer:
        writer.add([("total", total)])
    return {"data": uri}
