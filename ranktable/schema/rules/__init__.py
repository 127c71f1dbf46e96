"""The rules: one file a family, every code in one place.

``ranktable.report.catalogue`` lists the codes of all packages.
"""
