"""The section `record`."""
