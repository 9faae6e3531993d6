"""The database: opening it, its schema, its rows. `rows.py` turns rows into values, and values into columns."""
