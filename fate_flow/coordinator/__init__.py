"""Load, decide, apply: the use cases and the tick."""
