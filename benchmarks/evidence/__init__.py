"""Where the records about claims come from: finished studies, the benchmark of `advise`, `rescale`, earlier results."""
