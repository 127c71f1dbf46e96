"""The rules: one file a family, every code in one place.

This file only names the families; the catalogue of all codes is ``catalogue.RULES``.
"""
