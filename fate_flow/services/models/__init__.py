"""The store of models: storing what tasks have made, looking up what tasks read."""
