"""What every store promises, one protocol for SQLite, MySQL and memory."""
