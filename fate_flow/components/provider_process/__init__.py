"""What the Python of a provider runs for us. Nothing that it starts with needs more than the standard library."""
