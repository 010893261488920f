"""What everything rests on.

The contract of a method, noise and its accounting, statements, secure sums.
"""
