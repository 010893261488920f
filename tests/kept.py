"""Committed rows, read once in a process: tests only look at them."""

from functools import cache

from fedsynth_lib.runs import grid

committed_rows = cache(grid.committed_rows)
