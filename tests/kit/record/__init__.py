"""Programs that get what is recorded."""
