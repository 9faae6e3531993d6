"""What a user hands over: options that many commands share, and files."""
