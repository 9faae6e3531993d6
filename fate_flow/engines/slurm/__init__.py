"""Slurm as a cluster: its commands, with options that Slurm 20.11 has, and the words of its listing."""
