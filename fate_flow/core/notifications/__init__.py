"""What people and their programs hear of, when they look at no screen."""
