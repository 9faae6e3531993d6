"""Helpers for tests of the board."""
