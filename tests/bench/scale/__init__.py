"""Many parties and many jobs: simulated, on real servers, and in one database."""
