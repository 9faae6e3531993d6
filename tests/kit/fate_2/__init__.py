"""Requests of FATE 2's clients, and what the genuine server has answered to them."""
