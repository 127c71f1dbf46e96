"""Rank tables: formats, rules, reading and writing; without torch or a network."""
