"""Queries of the board about time: what a job did when, and what was reserved when."""
