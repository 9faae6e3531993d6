"""Artifacts on the disk of this party: where they may be, what a worker may report about them, how they are removed."""
