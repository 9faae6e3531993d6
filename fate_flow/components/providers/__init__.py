"""The providers of components, and what each says about its components; the server imports these, so they are light."""
