"""Racing: train the most promising of many shapes, estimate the others, and name the best."""
