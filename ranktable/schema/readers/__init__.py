"""What each reader of the vendors returns for a file, sound or not."""
