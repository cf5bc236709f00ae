"""Environments: functional ones (pure JAX), and host ones (Gymnasium, EnvPool)."""
