"""The output of commands, for scripts and for people."""
