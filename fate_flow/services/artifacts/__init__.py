"""Artifacts as use cases see them: what is stored about each kind, handed to the next task, removed, and granted."""
