"""Real servers, real workers, real faults: `bin/chaos`."""
