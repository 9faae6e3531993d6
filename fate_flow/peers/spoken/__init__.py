"""Digests in words that people read aloud."""
