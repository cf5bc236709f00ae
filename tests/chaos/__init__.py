"""Fault injection: every fault must end identically to the undisturbed run, or in one message with nothing lost.

`make chaos` runs all kinds; `python -m chaos --kind bitflip --seed 17` (with `tests` on the path) repeats one fault.
"""
