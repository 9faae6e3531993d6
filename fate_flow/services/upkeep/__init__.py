"""What is looked after without a request."""
