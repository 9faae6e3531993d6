"""FATE's transport inside a worker: a gRPC service on loopback, which passes messages to the exchange and back.

FATE names its topics `<federation id>-<role>-<party>-<role>-<party>-<name>`, sender first. The federation id of an
attempt has 128 random bits: a request of another user of this machine, who does not know it, is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fate_flow.components.base.errors import ExchangeError
from fate_flow.components.base.exchange import Channel
from fate_flow.components.provider_process import ptp
from fate_flow.core.model.spec import Party

MOST_CALLS = 512
"""At once; a pop waits for as long as its message takes, and each partition of a table has one."""
_LONGEST_TOPIC = 200


class Refusal(Exception):
    """The request cannot be served; the text says why."""


@dataclass(frozen=True)
class Bridge:
    """What each call of the transport does. Raises Refusal or ExchangeError."""

    channel: Channel
    federation_id: str
    me: Party
    others: tuple[Party, ...]

    def push(self, request: Mapping[int, bytes]) -> bytes:
        to, name = self._peer(request, lambda other: (self.me, other))
        self.channel.push(name, to, request.get(ptp.PAYLOAD, b""))
        return ptp.outbound()

    def pop(self, request: Mapping[int, bytes]) -> bytes:
        """Return the next message of the topic; wait for as long as it takes."""
        frm, name = self._peer(request, lambda other: (other, self.me))
        return ptp.outbound(self.channel.pop(name, frm))

    def release(self, request: Mapping[int, bytes]) -> bytes:  # noqa: ARG002  # the end of the attempt releases all
        return ptp.outbound()

    def _peer(self, request: Mapping[int, bytes], ends: Callable[[Party], tuple[Party, Party]]) -> tuple[Party, str]:
        """Return the other party of a topic, and its name for the exchange."""
        topic = request.get(ptp.TOPIC, b"").decode("utf-8", "replace")
        for other in self.others:
            sender, receiver = ends(other)
            start = (self.federation_id, sender.role, sender.party_id, receiver.role, receiver.party_id, "")
            if topic.startswith("-".join(start)):
                return other, short_topic(topic[len("-".join(start)) :])
        raise Refusal("the topic is not one between this party and another one of this attempt")


def short_topic(name: str) -> str:
    """Return the name, or a digest of one that is too long for the exchange."""
    if 0 < len(name) <= _LONGEST_TOPIC:
        return f"ptp-{name}"
    return f"ptp#{hashlib.sha256(name.encode()).hexdigest()}"


def serve(bridge: Bridge, grpc: Any) -> tuple[Any, int]:
    """Start the service; return it with its port. `grpc`: the module."""

    def answered(operation: Callable[[Mapping[int, bytes]], bytes]) -> Any:
        def handle(request: Mapping[int, bytes], context: Any) -> bytes:
            try:
                return operation(request)
            except Refusal as refused:
                return context.abort(grpc.StatusCode.PERMISSION_DENIED, str(refused))  # type: ignore[no-any-return]
            except ExchangeError as error:
                return context.abort(grpc.StatusCode.ABORTED, error.message)  # type: ignore[no-any-return]

        return grpc.unary_unary_rpc_method_handler(handle, request_deserializer=ptp.read_fields)

    calls = {"push": bridge.push, "pop": bridge.pop, "release": bridge.release}
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
    server = grpc.server(ThreadPoolExecutor(MOST_CALLS, thread_name_prefix="ptp"), options=options)
    handlers = {name: answered(call) for name, call in calls.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(ptp.SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port
