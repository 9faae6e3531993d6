"""A real Slurm for tests, and jobs that run on it."""
