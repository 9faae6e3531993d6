"""Pure decisions: a view of a job goes in, a plan of actions comes out.

The plan of a job begins in `plan.py`. A plan also writes the bodies of the commands to other parties; what follows from
their answers is in `replies.py`. Which waiting job may reserve is in `queue.py`.
"""
