"""Streams in the process of the gateway: it carries bytes between workers of different parties."""
