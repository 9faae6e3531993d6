"""Made-up input for both listeners of a real server: `bin/fuzz`."""
