"""Measurements of a run: what a batch of its shape is worth, and what any other shape would give."""
