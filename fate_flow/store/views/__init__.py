"""What clients see of the database: rows under FATE's names, read only."""
