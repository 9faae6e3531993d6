"""Routes of clients about models."""
