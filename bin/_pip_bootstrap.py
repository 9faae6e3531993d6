"""Download the locked pip wheel (requirements/build.txt) from the package index, and print its path.

This is for a Python without ensurepip, such as Debian's without python3-venv, and uses only the standard library. It
finds the index as pip does: PIP_* variables, then the user's pip.conf, then the machine's.
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

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "build.txt"
_LOCKED = re.compile(r"^pip==(\S+)[^\n]*((?:\n +--hash=sha256:[0-9a-f]{64}[ \\]*)+)", re.MULTILINE)


@dataclass(frozen=True)
class Locked:
    """The locked release of pip, and the SHA-256 of its files."""

    version: str
    sha256: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Locked:
        """Return the release in a lock file. Raise ValueError if there is none."""
        match = _LOCKED.search(text)
        if match is None:
            raise ValueError(f"{LOCK.name} locks no pip")
        return cls(match[1], frozenset(re.findall(r"[0-9a-f]{64}", match[2])))

    def is_wheel(self, name: str) -> bool:
        return re.fullmatch(rf"pip-{re.escape(self.version)}-py[23.py]*-none-any\.whl", name) is not None


class Options:
    """pip's options; as in pip, the environment takes precedence over the files."""

    def __init__(self) -> None:
        self._files = configparser.RawConfigParser(strict=False)
        for path in ("/etc/xdg/pip/pip.conf", "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf",
                     os.environ.get("PIP_CONFIG_FILE", "")):
            try:
                self._files.read(os.path.expanduser(path))
            except (OSError, configparser.Error, UnicodeDecodeError) as error:
                sys.stderr.write(f"pip's configuration {path} is ignored: {error}\n")

    def get(self, name: str, default: str = "") -> str:
        value = os.environ.get(f"PIP_{name.upper().replace('-', '_')}", "")
        for section in ("install", "global"):
            value = value or self._files.get(section, name, fallback="")
        return value.strip() or default

    def parts(self, name: str) -> list[str]:
        return self.get(name).split()


class Fetcher:
    """Downloads with the certificates, the proxy and the timeout that pip would use."""

    def __init__(self, options: Options) -> None:
        self._timeout = float(options.get("timeout", options.get("default-timeout", "30")))
        self._trusted = {host.partition(":")[0] for host in options.parts("trusted-host")}
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
            # Not `add_header`: urllib copies those headers into the request that follows a redirect, to any host.
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        opener = build_opener(proxies, HTTPSHandler(context=context))
        with opener.open(request, timeout=self._timeout) as answer:
            content: bytes = answer.read()
        return content


class _Links(HTMLParser):
    """Finds the links of an index page to the locked wheel."""

    def __init__(self, url: str, wanted: Locked) -> None:
        super().__init__()
        self._url, self._wanted = url, wanted
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base" and values.get("href"):
            self._url = urljoin(self._url, values["href"] or "")
        if tag == "a":
            url, _ = urldefrag(urljoin(self._url, values.get("href") or ""))
            if self._wanted.is_wheel(_name(url)):
                self.found.append(url)


def _name(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _pages(options: Options) -> Iterator[str]:
    """Yield every page that may list pip wheels, the preferred one first."""
    if options.get("no-index", "0").lower() not in ("1", "true", "yes", "on"):
        for index in [options.get("index-url", "https://pypi.org/simple"), *options.parts("extra-index-url")]:
            page = index.rstrip("/") + "/pip/"
            yield page + "index.html" if page.startswith("file:") else page
    yield from options.parts("find-links")


def _listed(page: str, fetcher: Fetcher, wanted: Locked) -> list[str]:
    folder = Path(unquote(urlsplit(page).path)) if page.startswith("file:") else Path(page).expanduser()
    if "://" not in page or folder.is_dir():
        return [path.resolve().as_uri() for path in folder.glob("pip-*.whl") if wanted.is_wheel(path.name)]
    links = _Links(page, wanted)
    links.feed(fetcher.fetch(page).decode("utf-8", "replace"))
    return links.found


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"pip cannot be downloaded: {message}\n")
    raise SystemExit(1)


def main(folder: Path) -> None:
    options = Options()
    fetcher = Fetcher(options)
    wanted = Locked.read(LOCK.read_text(encoding="utf-8"))
    problems: list[str] = []
    for page in _pages(options):
        shown = re.sub(r"//[^/@]*@", "//", page)
        try:
            for url in _listed(page, fetcher, wanted):
                content = fetcher.fetch(url)
                if hashlib.sha256(content).hexdigest() in wanted.sha256:
                    target = folder / _name(url)
                    target.write_bytes(content)
                    sys.stdout.write(f"{target}\n")
                    return
                problems.append(f"{shown}: the SHA-256 of {_name(url)} is not the locked one")
        except (URLError, OSError, ValueError) as error:
            problems.append(f"{shown}: {error}")
        else:
            problems.append(f"{shown}: has no suitable wheel of pip {wanted.version}")
    _fail("; ".join(problems) or "no index is configured")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
