"""What every store promises, as tests, a module for each subject. `contract.py` has all that one connection needs."""
