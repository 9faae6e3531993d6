"""The page where FATE has its board: it leads to ours, which has its own address."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.declared import declared
from fate_flow.core.access.client_roles import OPEN

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Party {party_id}</title>
<h1>Party {party_id}</h1>
<p>The board is at <a href="/board/">/board/</a>. A job is at /board/jobs/JOB_ID; if a link of an older release has led
here, its job id is in the address of this page. By command:</p>
<pre>
flow --server {url} job watch -j JOB_ID
flow --server {url} job explain -j JOB_ID
flow --server {url} job log -j JOB_ID -o .
</pre>
"""


def blueprint(party_id: str, url: str) -> Blueprint:
    """Return the page at `/index.html`, where FATE has its board."""
    board = Blueprint("board", __name__)
    page = _PAGE.format(party_id=party_id, url=url)

    @board.get("/index.html")
    @declared("Show a page that leads to the board, with the commands that show a job.", OPEN, file="text/html")
    def index() -> Response:
        return Response(page, mimetype="text/html")

    return board
