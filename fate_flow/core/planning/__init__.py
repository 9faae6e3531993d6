"""Pure decisions: a view of a job goes in, a plan of actions comes out."""
