"""What every component gets: its task, its results, messages to the other parties."""
