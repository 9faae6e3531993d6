"""Workers as processes of this machine: launch, watch, kill; what the worker process itself does.

The server calls `engine.py`, which writes and reads the worker's folder. `spawner.py` forks a runner, and `runner.py`
forks the worker. After a restart, the server finds its workers by their folders.
"""
