"""Descriptions of clusters that launchers and schedulers read: one file a kind."""
