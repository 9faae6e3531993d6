"""Workers as processes of this machine: launch, watch, kill; what the worker process itself does."""
