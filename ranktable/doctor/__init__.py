"""From the logs of a failed job to the rank, host and chip, and what to do."""
