"""Jobs and their tasks, for clients of FATE Flow 2."""
