"""Other parties: commands out, the wire format of both directions, and the exchange between workers."""
