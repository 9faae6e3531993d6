"""What people say about their notifications."""
