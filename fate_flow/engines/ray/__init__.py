"""Workers as jobs of a Ray cluster, by its Jobs API: HTTP with a token, so this server needs no Ray.

`client.py` speaks HTTP, `tables.py` has what its words mean, `cluster.py` is what `engines/placed/` asks of a
cluster, and `run.py` is what a job of Ray executes, or `away.py` where its host does not see the home.
"""
