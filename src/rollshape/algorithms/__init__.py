"""What learns: one file per algorithm, behind the protocol of `base`."""
