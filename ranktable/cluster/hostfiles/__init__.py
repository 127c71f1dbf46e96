"""Files in which launchers and schedulers list the hosts of a job, one per module."""
