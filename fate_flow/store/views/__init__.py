"""What the API sees of the database: values and rows of named fields, read only."""
