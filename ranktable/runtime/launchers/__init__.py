"""The launchers: their variables, and which of them can run inside which."""
