"""Streams between the workers of a task: what travels between two gateways, and the addresses of workers."""
