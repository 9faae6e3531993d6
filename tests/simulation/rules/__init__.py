"""What may never happen in the simulation, and what has to hold once the faults have stopped."""
