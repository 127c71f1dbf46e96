"""What people and programs see: diagnostics and tables as text, JSON, SARIF."""
