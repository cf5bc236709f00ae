"""Many runs: the study file, its store, engines that run the trials, statistics, diagnosis."""
