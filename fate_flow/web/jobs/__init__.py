"""What pages about a job say, made of values alone: its graph, its timeline, who has to act, and what has changed."""
