"""A session of the board of a real server, without a browser."""

from __future__ import annotations

import re

import requests

from fate_flow.settings.client_keys import ClientKeys
from fate_flow.web.sessions import proof_of

_CHALLENGE = re.compile(r'name="challenge" value="([^"]+)"')


def signed_in(url: str, key: ClientKeys) -> dict[str, str]:
    """Return the cookies of a session of this client at the server with this address."""
    page = requests.get(f"{url}/board/sign-in", timeout=30).text
    found = _CHALLENGE.search(page)
    assert found is not None, page
    form = {"challenge": found[1], "app_key": key.app_key, "proof": proof_of(key.secret_key, found[1]), "next": ""}
    answer = requests.post(f"{url}/board/sign-in", data=form, allow_redirects=False, timeout=30)
    assert answer.status_code == 303, answer.text
    return dict(answer.cookies)
