"""The messages between servers of different parties, one folder for each version of the protocol."""
