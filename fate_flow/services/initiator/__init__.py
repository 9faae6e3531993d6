"""What a party does for the jobs that it initiated."""
