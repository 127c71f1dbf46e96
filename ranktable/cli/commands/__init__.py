"""The commands, one file each; ``ranktable.cli.app`` imports the one that is named."""
