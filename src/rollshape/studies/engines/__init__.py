"""What runs the trials of a study: worker processes of this machine, or a Ray cluster."""
