"""Grids of cells, the rows they leave, and the files these live in."""
