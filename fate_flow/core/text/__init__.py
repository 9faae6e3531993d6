"""Text for people to read."""
