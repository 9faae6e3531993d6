"""The routes of a process that runs follow the parties that join; the configuration comes first."""

from __future__ import annotations

from fate_flow.core.model.errors import StorageFailed
from fate_flow.server.other_parties.party_routes import PartyRoutes, RouteUrls
from fate_flow.settings.parties import Route

CONFIGURED = {"10000": Route("http://10.0.0.2:9380", "/etc/ca.pem")}


def test_a_party_that_joins_has_a_route_from_then_on() -> None:
    joined: dict[str, str] = {}
    routes = PartyRoutes(CONFIGURED, lambda: joined)
    urls = RouteUrls(routes)
    assert (dict(routes), len(routes), "10001" in routes) == (CONFIGURED, 1, False)
    joined.update({"10001": "https://10.0.0.3:9390", "10000": "https://10.6.6.6:9390"})
    assert routes["10001"] == Route("https://10.0.0.3:9390")
    assert routes["10000"] == CONFIGURED["10000"]
    assert dict(urls) == {"10000": "http://10.0.0.2:9380", "10001": "https://10.0.0.3:9390"}
    assert (len(routes), len(urls), urls.get("10002"), routes.get("10002")) == (2, 2, None, None)
    assert {"10000", "10001", "10002"} - routes.keys() == {"10002"}


def test_without_a_database_the_configuration_is_all() -> None:
    def failing() -> dict[str, str]:
        raise StorageFailed("away")

    assert dict(PartyRoutes(CONFIGURED, failing)) == CONFIGURED
