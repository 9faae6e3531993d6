"""How fast, how much, how big: measurements on real servers. `bin/bench` runs them; no test depends on a time."""
