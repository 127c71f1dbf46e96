"""The communication backends, one declaration each."""
