"""Bayesian networks learned across clients."""
