"""What all other rooms rest on.

This room holds the contract of a method, noise and its accounting, statements, and secure sums.
"""
