"""Deliberate bugs in the real code, each of which the simulation has to catch within some seeds."""
