"""The database: opening it, its schema, its rows. `rows.py` makes rows into values, and values into columns."""
