"""The record: what becomes an entry, and how entries get their places in logs that others can check."""
