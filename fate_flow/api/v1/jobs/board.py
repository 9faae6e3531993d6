"""The page that `board_url` of a submit leads to. This server has no board; the page names commands to use instead."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.declared import declared
from fate_flow.core.access.client_roles import OPEN

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Party {party_id}</title>
<h1>Party {party_id}</h1>
<p>This server has no board. Use these commands to see a job; its id is in the address of this page.</p>
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
    @declared("Show a page with the commands that show a job.", OPEN, file="text/html")
    def index() -> Response:
        return Response(page, mimetype="text/html")

    return board
