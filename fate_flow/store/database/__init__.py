"""The database: opening it, its schema, its rows."""
