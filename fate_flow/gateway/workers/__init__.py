"""The listener for workers of this party that run on other hosts."""
