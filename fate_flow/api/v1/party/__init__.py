"""This party's server: its settings, engine, keys, permissions, and the other parties."""
