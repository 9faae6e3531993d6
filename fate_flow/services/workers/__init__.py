"""A party's own share of a task: its workers."""
