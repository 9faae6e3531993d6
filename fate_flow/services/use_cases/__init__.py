"""What the HTTP endpoints ask for."""
