"""The addresses of an attempt: its own, the same each time, and told to its workers by variables."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party, Port
from fate_flow.core.streams.addresses import ends_of, environment_of

GUEST, HOST, OTHER = Party("guest", "9999"), Party("host", "10000"), Party("host", "10001")
KEY = TaskKey("202601011200000000001", "train", 0, GUEST)
PORTS = (Port("fl", (GUEST,), (HOST, OTHER)), Port("mesh", (HOST, OTHER), (HOST, OTHER)))


def at(party: Party) -> TaskKey:
    return replace(KEY, party=party)


def test_each_side_of_a_pair_has_its_end() -> None:
    guest, host = ends_of(PORTS, at(GUEST), "abcd"), ends_of(PORTS, at(HOST), "abcd")
    assert [(one.name, one.callers) for one in guest.listens] == [("fl", (HOST, OTHER))]
    assert guest.connects == ()
    assert [(one.name, one.callers) for one in host.listens] == [("mesh", (OTHER,))]
    assert [(one.name, one.to) for one in host.connects] == [("fl", GUEST), ("mesh", OTHER)]
    assert not ends_of((), KEY, "abcd")


def test_the_addresses_follow_from_the_attempt_and_no_other_attempt_has_them() -> None:
    many = [
        ends_of(PORTS, replace(at(party), version=version), incarnation)
        for party in (GUEST, HOST, OTHER) for version in range(20) for incarnation in ("abcd", "ef01")
    ]
    assert ends_of(PORTS, at(HOST), "abcd") == ends_of(PORTS, at(HOST), "abcd")
    addresses = [one.address for ends in many for one in (*ends.listens, *ends.connects)]
    assert len(set(addresses)) == len(addresses)
    for one in addresses:
        first, second, *rest = map(int, one.host.split("."))
        assert (first, 64 <= second < 128) == (127, True)
        assert 0 < rest[-1] < 255
        assert 10_000 <= one.port < 30_000


def test_a_missing_party_changes_no_other_address() -> None:
    whole, without = ends_of(PORTS, at(HOST), "abcd"), ends_of(PORTS, at(HOST), "abcd", (str(OTHER),))
    assert without.listens == ()
    assert without.connects == whole.connects[:1]


def test_variables_name_the_port_and_the_party() -> None:
    found = environment_of(ends_of(PORTS, at(HOST), "abcd"))
    assert set(found) == {
        "FATE_FLOW_LISTEN_MESH", "FATE_FLOW_PORT_FL", "FATE_FLOW_PORT_FL_GUEST_9999", "FATE_FLOW_PORT_MESH",
        "FATE_FLOW_PORT_MESH_HOST_10001",
    }
    assert found["FATE_FLOW_PORT_FL"] == found["FATE_FLOW_PORT_FL_GUEST_9999"]
    several = environment_of(ends_of((Port("fl", (HOST, OTHER), (GUEST,)),), KEY, "abcd"))
    assert set(several) == {"FATE_FLOW_PORT_FL_HOST_10000", "FATE_FLOW_PORT_FL_HOST_10001"}
