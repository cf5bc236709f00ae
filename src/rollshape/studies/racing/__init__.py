"""Racing: train many shapes for a short time, a few of them for longer, and name the best."""
