"""Lines of ``ranktable probe``: what one node has."""
