"""What a batch is worth: statistics of plain arrays.

Arrays are environment first, [N, T, …]: an environment is the independent unit, and every row and interval is one of its.
"""
