"""Diagnostics, tables and plans as text, JSON, SARIF and other forms."""
