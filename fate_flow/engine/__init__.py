"""Running a task: launch, watch, kill; what the worker process itself does."""
