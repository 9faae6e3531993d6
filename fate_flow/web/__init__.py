"""The board: pages about this party's jobs for people with a browser, at `/board` of the clients' address.

The server renders them; a script of the package keeps them fresh. They show what the routes of clients show, to the
same client keys and roles.
"""
