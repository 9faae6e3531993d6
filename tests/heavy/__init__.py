"""The examples of frameworks with the genuine packages, which are large: `bin/test --heavy` fetches them."""
