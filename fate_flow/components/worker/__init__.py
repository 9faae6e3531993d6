"""What every component of ours uses in its worker: its task and its results."""
