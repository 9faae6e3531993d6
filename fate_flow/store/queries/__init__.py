"""Queries of the SQL store that stand apart from the part that asks them."""
