"""What launchers and schedulers read about the hosts of a job: one file a format."""
