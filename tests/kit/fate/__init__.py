"""FATE's algorithms in tests: rows, jobs at servers of parties, and the same computations in one place."""
