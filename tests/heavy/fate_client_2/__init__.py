"""The genuine client of FATE 2 against real servers."""
