"""The page: a planner that runs in the browser, and a local server that also shows runs, studies and probes."""
