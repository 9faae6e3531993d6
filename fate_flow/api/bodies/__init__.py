"""What comes in the bodies of requests."""
