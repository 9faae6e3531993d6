"""What every component uses: the catalogue, its task, its results."""
