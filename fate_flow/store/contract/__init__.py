"""What every store promises, one protocol for each subject, the same for SQLite, MySQL and memory."""
