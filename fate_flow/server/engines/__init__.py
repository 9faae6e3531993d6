"""How each kind of engine is built; see `kinds.py`."""
