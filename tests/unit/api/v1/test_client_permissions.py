"""`POST /v1/permission/...`: what jobs of another party may use here."""

from __future__ import annotations

import pytest

from tests.kit.api.client_world import World

NUMBERS = {"namespace": "it", "name": "numbers"}


def granted(world: World, party_id: object = "10000") -> object:
    return world.ask("permission/query", {"party_id": party_id})["data"]


def test_what_is_granted_is_shown_until_it_is_deleted(world: World) -> None:
    body = {"party_id": 10000, "component": "reader,SecureSum", "dataset": [NUMBERS], "conf_path": "x"}
    assert world.ask("permission/grant", body) == {"retcode": 0, "retmsg": "success"}
    assert world.ask("permission/grant", {"party_id": "10000", "dataset": "*"})["retcode"] == 0
    assert granted(world) == {"component": ["Reader", "SecureSum"], "dataset": ["*", NUMBERS]}
    assert granted(world, 9999) == {"component": [], "dataset": []}
    assert world.ask("permission/delete", {"party_id": "10000", "component": "SecureSum"})["retcode"] == 0
    assert granted(world) == {"component": ["Reader"], "dataset": ["*", NUMBERS]}
    assert world.ask("permission/delete", {"party_id": "10000", "dataset": "*"})["retcode"] == 0
    assert granted(world) == {"component": ["Reader"], "dataset": []}


@pytest.mark.parametrize("verb", ["grant", "delete"])
def test_components_of_fate_are_named_and_the_others_granted(world: World, verb: str) -> None:
    world.ask("permission/grant", {"party_id": "10000", "component": "SecureSum,reader"})
    said = world.ask(f"permission/{verb}", {"party_id": "10000", "component": "reader,hetero_lr", "zork": 1})
    assert (said["retcode"], said["data"]["warnings"]) == (
        0,
        [
            "component: 'hetero_lr' is not a component of this server; it is ignored",
            "zork: is not known; it is ignored",
        ],
    )
    assert granted(world) == {"component": ["Reader", "SecureSum"][verb == "delete":], "dataset": []}
    refused = world.ask(f"permission/{verb}", {"party_id": "10000", "component": "hetero_lr"})
    assert (refused["retcode"], "'hetero_lr' is not one of *, " in refused["retmsg"]) == (101, True)


def test_what_was_not_granted_cannot_be_deleted(world: World) -> None:
    world.ask("permission/grant", {"party_id": "10000", "component": "*"})
    said = world.ask("permission/delete", {"party_id": "10000", "component": "Reader"})
    assert (said["retcode"], "was not granted component Reader" in said["retmsg"]) == (100, True)
    assert granted(world) == {"component": ["*"], "dataset": []}


def test_the_paths_from_before_1_9_name_the_party_as_the_source(world: World) -> None:
    source = {"src_party_id": 10000, "src_role": "guest"}
    assert world.ask("permission/grant/privilege", {**source, "privilege_component": "Reader"})["retcode"] == 0
    assert world.ask("permission/grant/privilege", {**source, "privilege_dataset": "*"})["retcode"] == 0
    assert world.ask("permission/query/privilege", source)["data"] == {
        "src_party_id": "10000", "src_role": "guest", "role": [], "command": [], "component": ["Reader"],
        "dataset": ["*"],
    }  # fmt: skip
    assert world.ask("permission/delete/privilege", {**source, "privilege_component": "Reader"})["retcode"] == 0
    assert granted(world) == {"component": [], "dataset": ["*"]}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"src_party_id": "nobody"}, "src_party_id: 'nobody' is not a party id"),
        ({"src_role": "boss"}, "src_role: 'boss' is not one of guest"),
        ({}, "required argument are missing: privilege_component or privilege_dataset"),
        ({"component": "Reader"}, "required argument are missing: privilege_component or privilege_dataset"),
        ({"privilege_component": "Magic"}, "privilege_component: 'Magic' is not one of *, "),
        ({"privilege_dataset": 7}, "privilege_dataset: 7 is not"),
        ({"privilege_dataset": [{"namespace": "it"}]}, "privilege_dataset.name: null is not"),
        ({"privilege_dataset": [NUMBERS] * 1_001}, "privilege_dataset: has 1001 tables; 1000 is the most at once"),
        ({"privilege_role": "guest"}, "privilege_role: 'guest' cannot be granted"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_the_terms_of_that_path(world: World, more: dict[str, object], text: str) -> None:
    said = world.ask("permission/grant/privilege", {"src_party_id": 10000, "src_role": "guest", **more})
    assert (said["retcode"], said["retmsg"].startswith(text)) == (101, True), said
