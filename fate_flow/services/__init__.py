"""The use cases of a server: load, decide, apply."""
