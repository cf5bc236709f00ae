"""Gradient statistics of a batch, from plain arrays.

Arrays are environment first, [N, T, …]: environments are the independent units of all statistics here.
"""
