"""The contract of every store: one protocol for each subject, the same for SQLite, MySQL and memory.

`changes.py` builds every move of a status, and checks that it is legal.
"""
