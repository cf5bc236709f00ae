"""Runs of other libraries: recorded while they train, or read from their logs. Nothing here imports JAX or torch."""
