"""Fetches the newest pip wheel for this Python from the package index and prints where it lies.

For a Python without ensurepip, such as Debian's without python3-venv. Standard library only. The index is
looked for where pip itself would look: PIP_* variables, then pip.conf of the user, then of the machine.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import os
import re
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import NoReturn
from urllib.error import URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

WHEEL = re.compile(r"pip-(\d+(?:\.\d+)*)-py[23.py]*-none-any\.whl")


@dataclass(frozen=True)
class Wheel:
    version: tuple[int, ...]
    url: str
    sha256: str

    @property
    def name(self) -> str:
        return unquote(urlsplit(self.url).path.rpartition("/")[2])


class Options:
    """pip's options, from the environment before the files, as pip weighs them."""

    def __init__(self) -> None:
        self._files = configparser.RawConfigParser(strict=False)
        for path in ("/etc/xdg/pip/pip.conf", "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf",
                     os.environ.get("PIP_CONFIG_FILE", "")):
            try:
                self._files.read(os.path.expanduser(path))
            except (OSError, configparser.Error, UnicodeDecodeError) as error:
                sys.stderr.write(f"pip's configuration {path} is passed over: {error}\n")

    def get(self, name: str, default: str = "") -> str:
        value = os.environ.get(f"PIP_{name.upper().replace('-', '_')}", "")
        for section in ("install", "global"):
            value = value or self._files.get(section, name, fallback="")
        return value.strip() or default

    def words(self, name: str) -> list[str]:
        return self.get(name).split()


class Fetcher:
    """Opens addresses with the certificates, proxy and time limit that pip would use."""

    def __init__(self, options: Options) -> None:
        self._timeout = float(options.get("timeout", options.get("default-timeout", "30")))
        self._trusted = {host.partition(":")[0] for host in options.words("trusted-host")}
        self._proxy = options.get("proxy")
        cafile = options.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        self._verified = ssl.create_default_context(cafile=cafile if cafile and Path(cafile).is_file() else None)

    def fetch(self, url: str) -> bytes:
        parts = urlsplit(url)
        context = self._verified
        if parts.hostname in self._trusted:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        proxies = ProxyHandler({"http": self._proxy, "https": self._proxy} if self._proxy else None)
        request = Request(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))  # noqa: S310
        request.add_header("Accept", "application/vnd.pypi.simple.v1+html, text/html;q=0.5, */*;q=0.1")
        if parts.username:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        opener = build_opener(proxies, HTTPSHandler(context=context))
        with opener.open(request, timeout=self._timeout) as answer:
            content: bytes = answer.read()
        return content


class _Links(HTMLParser):
    """The links of an index page that are a pip wheel for this Python."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.wheels: list[Wheel] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base" and values.get("href"):
            self._url = urljoin(self._url, values["href"] or "")
        if tag != "a" or "data-yanked" in values or not _admits(values.get("data-requires-python") or ""):
            return
        url, fragment = urldefrag(urljoin(self._url, values.get("href") or ""))
        match = WHEEL.fullmatch(unquote(urlsplit(url).path.rpartition("/")[2]))
        if match:
            version = tuple(int(number) for number in match[1].split("."))
            self.wheels.append(Wheel(version, url, fragment.removeprefix("sha256=") if "=" in fragment else ""))


def _admits(specifier: str) -> bool:
    """Whether this Python meets a Requires-Python; what is not understood is taken as met."""
    for match in re.finditer(r"(>=|<=|>|<|!=|==)\s*(\d+(?:\.\d+)*)(\.\*)?", specifier):
        asked = tuple(int(number) for number in match[2].split("."))
        here = sys.version_info[: len(asked)] if match[3] or match[1] in ("!=", "==") else sys.version_info[:3]
        met = {">=": here >= asked, "<=": here <= asked, ">": here > asked, "<": here < asked,
               "!=": here != asked, "==": here == asked}[match[1]]
        if not met:
            return False
    return True


def _pages(options: Options) -> Iterator[str]:
    """Every page that may list pip wheels, the preferred first."""
    if options.get("no-index", "0").lower() not in ("1", "true", "yes", "on"):
        for index in [options.get("index-url", "https://pypi.org/simple"), *options.words("extra-index-url")]:
            page = index.rstrip("/") + "/pip/"
            yield page + "index.html" if page.startswith("file:") else page
    yield from options.words("find-links")


def _listed(page: str, fetcher: Fetcher) -> list[Wheel]:
    folder = Path(unquote(urlsplit(page).path)) if page.startswith("file:") else Path(page).expanduser()
    if "://" not in page or folder.is_dir():
        found = ((path, WHEEL.fullmatch(path.name)) for path in folder.glob("pip-*.whl"))
        return [
            Wheel(tuple(int(number) for number in match[1].split(".")), path.resolve().as_uri(), "")
            for path, match in found if match
        ]
    links = _Links(page)
    links.feed(fetcher.fetch(page).decode("utf-8", "replace"))
    return links.wheels


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"pip cannot be fetched: {message}\n")
    raise SystemExit(1)


def main(folder: Path) -> None:
    options = Options()
    fetcher = Fetcher(options)
    wheels: list[Wheel] = []
    problems: list[str] = []
    for page in _pages(options):
        shown = re.sub(r"//[^/@]*@", "//", page)
        try:
            wheels += _listed(page, fetcher)
        except (URLError, OSError, ValueError) as error:
            problems.append(f"{shown}: {error}")
        else:
            problems.append(f"{shown}: has no pip wheel for Python {sys.version_info[0]}.{sys.version_info[1]}")
    if not wheels:
        _fail("; ".join(problems) or "no index is configured")
    newest = max(wheels, key=lambda wheel: wheel.version)
    try:
        content = fetcher.fetch(newest.url)
    except (URLError, OSError) as error:
        _fail(f"{newest.name}: {error}")
    if newest.sha256 and hashlib.sha256(content).hexdigest() != newest.sha256:
        _fail(f"{newest.name}: its SHA-256 is not the one that the index names")
    target = folder / newest.name
    target.write_bytes(content)
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
