"""The format of values, tables and times."""
