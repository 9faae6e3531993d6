"""What the processes of a server know of other parties while they run."""
