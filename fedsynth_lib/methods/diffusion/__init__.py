"""Diffusion models of tables (FinDiff)."""
