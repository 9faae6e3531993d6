"""The DAG of FATE 2, as its clients submit it."""
