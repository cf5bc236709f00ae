"""The benchmark of `rollshape advise`: full studies that were run once, and racing rules replayed on them."""
