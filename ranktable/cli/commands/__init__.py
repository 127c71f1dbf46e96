"""The commands, one file each; ``ranktable.cli.app`` imports only the named one."""
