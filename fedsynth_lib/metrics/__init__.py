"""Measures, one file each.

`registry` says how they are written and which way is better; `evaluation` calls those that compare
whole tables.
"""
