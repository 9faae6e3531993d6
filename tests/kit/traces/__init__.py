"""A collector of traces on loopback, and what it has received."""
