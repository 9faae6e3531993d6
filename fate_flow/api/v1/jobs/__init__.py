"""Jobs and their tasks."""
