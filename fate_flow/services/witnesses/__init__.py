"""Parties as witnesses of each other's records."""
