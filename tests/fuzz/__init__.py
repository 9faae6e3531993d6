"""Made-up input for all listeners of a real server: `bin/fuzz`."""
