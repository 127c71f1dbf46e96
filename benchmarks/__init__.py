"""Each claim of speed, beside what a user would run instead.

``python -m benchmarks`` measures the budgets and prints them as one table.
"""
