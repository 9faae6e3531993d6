"""Submitted documents: read, checked with their paths, and made into a `JobSpec`."""
