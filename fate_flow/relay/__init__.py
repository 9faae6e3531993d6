"""Messages between the workers of one task at different parties: stored on disk, and forwarded."""
