"""The local engine: workers as processes of this machine. It launches, watches and kills them."""
