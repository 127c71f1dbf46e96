"""``check``: what a table declares, against this host and all ranks, before a job."""
