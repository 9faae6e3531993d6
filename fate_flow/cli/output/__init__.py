"""What is printed, for scripts and for people."""
