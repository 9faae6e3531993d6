"""What a party does for the initiators of its jobs."""
