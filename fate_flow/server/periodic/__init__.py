"""Work that the scheduler's process repeats beside scheduling, each in a thread of its own."""
