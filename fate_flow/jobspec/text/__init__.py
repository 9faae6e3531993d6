"""Text to values, each with its path, and back."""
