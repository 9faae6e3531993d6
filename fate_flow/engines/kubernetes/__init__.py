"""Workers as Jobs of Kubernetes: the cluster of the engine for placed workers.

`manifests.py` makes the objects, `status.py` reads what the cluster says about them, `cluster.py` puts both together
over `api.py`, which alone imports the official client (the extra `fate_flow[kubernetes]`).
"""
