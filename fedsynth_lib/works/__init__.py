"""The experiments of the five works, and the common ones: what a cell of each is, and what it
measures."""
