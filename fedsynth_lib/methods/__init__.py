"""The methods, one module each; this is the only registry."""

from fedsynth_lib.methods import bayesian_network, independent

METHODS = {"independent": independent, "fedbn": bayesian_network}
