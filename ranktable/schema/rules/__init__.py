"""The rules of rank tables, one file for each family of rules.

``ranktable.report.catalogue`` lists the codes of all packages.
"""
