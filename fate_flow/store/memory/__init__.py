"""The store in memory, for unit tests and the simulation."""
