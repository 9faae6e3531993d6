"""Maintenance and retention: work that needs no request."""
