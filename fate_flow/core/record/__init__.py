"""The record: entries in canonical form, the tree over them, signed checkpoints, proofs, and what a comparison says."""
