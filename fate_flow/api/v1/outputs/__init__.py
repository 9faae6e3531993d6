"""What workers have left at this party: what they printed, and the rows of their tables."""
