"""The receiving side: what a party does for the initiators of its jobs."""
