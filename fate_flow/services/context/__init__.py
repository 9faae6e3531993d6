"""What every use case works with: ports to the outside, one unit of work."""
