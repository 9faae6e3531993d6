"""How values, tables and times are written."""
