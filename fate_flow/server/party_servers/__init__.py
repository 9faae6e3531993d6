"""What concerns a party with several servers."""
