"""What a party does for the jobs that it initiated: load a view, plan it (`core/planning/`), carry out the actions."""
