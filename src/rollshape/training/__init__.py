"""How data flows: rollout → minibatches → update; the loop, checkpoints and the run directory."""
