"""The common parts of all routes: read a body, check the caller, write an answer."""
