"""Workers on hosts that do not share the home: their folder is staged over the listener for workers.

The server writes the folder of a worker as for any engine. On the other host, `agent.py` fetches what the worker needs,
claims it, starts the runner of the local engine there, and sends back what the worker makes. The server's half is
`documents.py` (what the other host gets) and `folder.py` (what it may leave here). The folder at the server says how
the worker is, as for every worker.
"""
