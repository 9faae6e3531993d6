"""What all engines share that place runners on other machines: the intent, the claim, and the folder as the first word.

`cluster.py` says what such an engine has to be able to do, `engine.py` is the engine over it, `seen.py` has its rules,
and `run.py` is what a placed job executes. Design: docs/explanation/engines.md.
"""
