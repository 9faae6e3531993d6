"""The routes for other parties."""
