"""This tree against other commits."""
