"""People choose of what they are notified, among what the configuration gives them, with their own keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.access.client_roles import ClientRole
from fate_flow.core.notifications.notification import Occasion
from fate_flow.core.notifications.subscribers import Subscribers
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import Client, add_client
from tests.kit.api.client_world import World, make_world
from tests.kit.api.signed_requests import asked
from tests.kit.notifications.subscribers import a_person

GIVEN = (Occasion.APPROVAL_NEEDED, Occasion.JOB_ENDED)


@pytest.fixture
def signing(tmp_path: Path) -> Iterator[World]:
    found = make_world(tmp_path, client_keys=ClientKeys("our-clients", "secret-of-9999"))
    object.__setattr__(found.services.context, "subscribers", Subscribers(people={"anna": a_person("anna", *GIVEN)}))
    yield found
    found.store.close()


def said(world: World, who: Client, path: str, **body: Any) -> Any:
    return asked(world, who, f"/v1/notification/{path}", body).json


def test_a_person_chooses_less_and_all_again(signing: World, tmp_path: Path) -> None:
    anna = add_client(tmp_path, "anna", ClientRole.READ, 1)
    both = [one.value for one in GIVEN]
    known = {"person": "anna", "given": both, "chosen": both, "channels": ["email"]}
    assert said(signing, anna, "show")["data"] == known
    for wanted in (["job_ended"], []):
        assert said(signing, anna, "choose", events=wanted)["data"] == {**known, "chosen": wanted}
        assert said(signing, anna, "show")["data"]["chosen"] == wanted
    with signing.store.reading() as tx:
        chosen = tx.chosen_occasions()
    assert list(signing.services.context.subscribers.targets(Occasion.JOB_ENDED, chosen, "anna")) == []
    assert said(signing, anna, "choose", events=None)["data"] == known
    assert signing.record.lines[0] == "anna chose to be notified of: job_ended (by anna)"


@pytest.mark.parametrize(("events", "text"), [
    (["partner_silent"], "events: 'partner_silent' is not one of those that the configuration gives anna: approval_"),
    (["test"], "events: 'test' is not one of those"), ("job_ended", "events: 'job_ended' is neither a list of texts"),
    ([1], "events: a list is neither a list of texts nor null"),
])  # fmt: skip
def test_nobody_chooses_more_than_the_configuration_gives(
    signing: World, tmp_path: Path, events: object, text: str
) -> None:
    found = said(signing, add_client(tmp_path, "anna", ClientRole.READ, 1), "choose", events=events)
    assert found["retcode"] != 0
    assert text in found["retmsg"]


def test_somebody_without_an_address_has_nothing_to_choose(signing: World, tmp_path: Path) -> None:
    found = said(signing, add_client(tmp_path, "ben", ClientRole.READ, 1), "show")
    assert found["retmsg"].startswith("the configuration of the server names no address of ben (notifications.people)")


def test_without_signatures_nobody_knows_who_asks(world: World) -> None:
    assert "clients need not sign here" in world.ask("notification/show", {})["retmsg"]
