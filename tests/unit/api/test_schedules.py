"""The health check that leads requests to the server that schedules."""

from __future__ import annotations

from tests.kit.api.client_world import World

PATH = "/schedules"


def test_the_server_that_has_the_lease_says_so_and_the_others_that_they_stand_by(world: World) -> None:
    assert world.client.get(PATH).status_code == 503        # no scheduler has ever run
    run = world.services.settings.run_dir
    run.mkdir(parents=True, exist_ok=True)
    (run / "lineage").write_bytes(b"12345678")
    assert world.client.get(PATH).status_code == 503
    with world.store.transaction() as tx:
        assert tx.take_scheduler_lease(*tx.scheduler(), f"{b'87654321'.hex()}-a")
    refused = world.client.get(PATH)
    assert refused.status_code == 503
    assert "stands by: another one of the party schedules" in refused.json["retmsg"]
    with world.store.transaction() as tx:
        assert tx.take_scheduler_lease(*tx.scheduler(), f"{b'12345678'.hex()}-b")
    answered = world.client.get(PATH)
    assert (answered.status_code, answered.text) == (200, "schedules\n")
