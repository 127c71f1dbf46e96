"""What is submitted: batch scripts and manifests of jobs, one kind per reader."""
