"""Work that the scheduler's process repeats beside scheduling."""
