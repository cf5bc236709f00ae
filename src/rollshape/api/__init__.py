"""The public functions that need every other package, and the objects that notebooks show."""
