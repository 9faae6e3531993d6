"""Quotas: how much of this server one other party may take."""
