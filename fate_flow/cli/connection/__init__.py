"""Where the server is, and how it is asked."""
