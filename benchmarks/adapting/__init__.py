"""The benchmark of adaptive shapes: runs whose shape changes between phases, and rules that choose it."""
