"""Tables in, out and away."""
