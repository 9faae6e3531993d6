"""The endpoints for this party's own workers."""
