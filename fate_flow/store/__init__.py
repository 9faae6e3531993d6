"""The database: rows, queries, compare-and-set. Rows never leave this folder."""
