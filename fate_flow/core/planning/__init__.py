"""Pure decisions: a view of a job goes in, a plan of actions comes out.

The plan of a job begins in `plan.py`. A plan also sends the commands to other parties, with the bodies of
`core/wire/`; what follows from their answers is in `replies.py`. Which waiting job may reserve is in `queue.py`.
"""
