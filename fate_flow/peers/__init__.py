"""Communication with other parties: sending commands, the wire format of both directions, signatures."""
