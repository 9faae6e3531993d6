"""The input of commands: shared options, and files."""
