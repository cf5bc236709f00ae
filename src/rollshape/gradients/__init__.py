"""What a batch is worth: statistics of plain arrays.

Arrays are environment first, [N, T, …]: an environment is the independent unit of everything that is said here.
"""
