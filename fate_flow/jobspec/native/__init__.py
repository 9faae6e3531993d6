"""The native job file."""
