"""What learns: networks, distributions, returns and losses, as pure functions of arrays."""
