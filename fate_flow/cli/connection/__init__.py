"""Find the server, and send requests to it."""
