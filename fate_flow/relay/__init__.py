"""Messages between the workers of one task at different parties: kept on disk, and forwarded."""
