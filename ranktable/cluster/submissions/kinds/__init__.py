"""What jobs of Kubernetes start, one kind per reader."""
