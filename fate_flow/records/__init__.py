"""What happened, for people who look later."""
