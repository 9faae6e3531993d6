"""Other parties: commands out, the wire format of both directions, signatures."""
