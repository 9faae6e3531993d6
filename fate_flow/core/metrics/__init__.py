"""Metrics of tasks."""
