"""A real browser: Debian's chromium without a screen, driven by its chromedriver over the protocol of W3C WebDriver.

`bin/test` gets both programs (bin/_programs.py). The protocol is JSON over HTTP, so no client library is needed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from fate_flow.cli.server.cluster_plan import Ports
from tests.kit.servers.party_servers import BASE_PORT
from tests.kit.waiting import SECONDS, eventually

BROWSER = "FATE_FLOW_TEST_BROWSER"
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{root}/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir></fontconfig>
"""


@dataclass
class Chromium:
    """One window. Its console is read by `console`."""

    session: str                 # the address of the WebDriver session
    axe: str = ""                # the source of axe

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        answer = requests.request(method, f"{self.session}{path}", json=body, timeout=SECONDS)
        value = answer.json()["value"]
        assert answer.status_code == 200, value
        return value

    def go(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    def forget_who_signed_in(self) -> None:
        """Sign out without the server. The page goes first: its next request would be refused in the console of whoever
        signs in next.
        """
        self.go("about:blank")
        self.run_cdp("Network.clearBrowserCookies", {})

    @property
    def tab(self) -> str:
        """The id of the tab that is looked at."""
        return str(self._ask("GET", "/window"))

    def new_tab(self) -> None:
        """Open a tab and look at it."""
        self.look_at(self._ask("POST", "/window/new", {"type": "tab"})["handle"])

    def look_at(self, tab: str) -> None:
        self._ask("POST", "/window", {"handle": tab})

    def close_tab(self) -> None:
        """Close this tab; another one has to be looked at then."""
        self._ask("DELETE", "/window")

    @property
    def url(self) -> str:
        return str(self._ask("GET", "/url"))

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; it runs beside those of the page, and its policy holds."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: Any) -> Any:
        """What a script gives to its last argument, a function."""
        return self._ask("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def find(self, css: str) -> str:
        found = self._ask("POST", "/element", {"using": "css selector", "value": css})
        return str(found[_ELEMENT])

    def type(self, css: str, text: str) -> None:
        self._ask("POST", f"/element/{self.find(css)}/value", {"text": text})

    def click(self, css: str) -> None:
        self._ask("POST", f"/element/{self.find(css)}/click", {})

    def accept_question(self) -> None:
        self._ask("POST", "/alert/accept", {})

    def dismiss_question(self) -> None:
        self._ask("POST", "/alert/dismiss", {})

    def text(self, css: str = "body") -> str:
        return str(self._ask("GET", f"/element/{self.find(css)}/text"))

    def wait_for_text(self, text: str, css: str = "main") -> None:
        """Wait, also for a page that has no such element yet."""
        script = "const one = document.querySelector(arguments[0]); return one ? one.textContent : ''"
        eventually(lambda: text in " ".join(self.run(script, css).split()), f"{text!r} on the page")

    def wait_until(self, script: str, what: str) -> None:
        """Wait until a script returns true."""
        eventually(lambda: self.run(script), what)

    def resize(self, width: int, height: int) -> None:
        self.run_cdp("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        })  # fmt: skip

    def prefer(self, scheme: str) -> None:
        self.run_cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def run_cdp(self, command: str, parameters: Mapping[str, Any]) -> Any:
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": dict(parameters)})

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def console(self) -> list[str]:
        """Errors and warnings since the last call, those of the policy and of the network included."""
        entries = self._ask("POST", "/se/log", {"type": "browser"})
        return [f"{one['level']} {one['message']}" for one in entries if one["level"] in ("SEVERE", "WARNING")]

    def barriers(self) -> list[str]:
        """What axe finds that keeps people out of the page, from serious on. The policy of the page stays on."""
        found = self.run_async(
            f"{self.axe}; const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']}).then((found) => done(found.violations.map((one) =>"
            " [one.impact, one.id, one.nodes.map((node) => node.html + ' ' + node.failureSummary).join(' | ')])));"
        )
        return [f"{impact} {name}: {where}" for impact, name, where in found if impact in ("serious", "critical")]

    def press_keys(self, keys: Sequence[str]) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})


@contextmanager
def chromium(folder: Path) -> Iterator[Chromium]:
    """A browser that keeps everything in this folder; skipped where there is none."""
    given = os.environ.get(BROWSER)
    if not given:
        pytest.skip(f"{BROWSER} names no browser (bin/test gets one)")
    programs: dict[str, str] = json.loads(given)
    fonts = folder / "fonts.conf"
    fonts.write_text(_FONTS.format(root=programs["root"], cache=folder / "fonts"))
    environment = {
        **os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder),
        "LD_LIBRARY_PATH": programs["libraries"], "FONTCONFIG_FILE": str(fonts),
    }  # fmt: skip
    # A port that the system gave would be free for any connection of another process until the driver listens.
    with closing(Ports()) as ports:
        port = next(filter(ports.is_free, range(BASE_PORT + 310, 65536)))
        driver = subprocess.Popen(
            [programs["chromedriver"], f"--port={port}"], env=environment, cwd=folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            axe = Path(programs["axe"]).read_text(encoding="utf-8")
            window = Chromium(_begin(f"http://127.0.0.1:{port}", programs["chromium"], folder), axe)
            try:
                yield window
            finally:
                requests.delete(window.session, timeout=SECONDS)      # ends the browser
        finally:
            driver.terminate()
            driver.wait(SECONDS)


def _begin(driver: str, program: str, folder: Path) -> str:
    eventually(lambda: _is_ready(driver), "chromedriver")
    # Tests run as root in containers, where chromium has no sandbox and little shared memory.
    arguments = [
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1280,900",
    ]  # fmt: skip
    capabilities = {
        "browserName": "chrome", "goog:chromeOptions": {"binary": program, "args": arguments},
        "goog:loggingPrefs": {"browser": "ALL"}, "timeouts": {"script": 60_000, "pageLoad": 60_000},
    }  # fmt: skip
    answer = requests.post(
        f"{driver}/session", json={"capabilities": {"alwaysMatch": capabilities}}, timeout=2 * SECONDS
    )
    value = answer.json()["value"]
    assert answer.status_code == 200, value
    return f"{driver}/session/{value['sessionId']}"


def _is_ready(driver: str) -> bool:
    try:
        return bool(requests.get(f"{driver}/status", timeout=5).json()["value"]["ready"])
    except (requests.RequestException, ValueError):
        return False
