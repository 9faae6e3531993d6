"""Who is notified in tests, and receivers on loopback."""
