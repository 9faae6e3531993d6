"""Parties, their processes, network and workers in one process, on virtual time."""
