"""The methods, one module each; this is the only registry."""

from fedsynth_lib.methods import (
    aim,
    augflaim_oracle,
    bayesian_network,
    distaim,
    fed_naive_bayes,
    flaim,
    flaim_random,
    independent,
    naive_flaim,
)

METHODS = {
    "independent": independent,
    "fedbn": bayesian_network,
    "aim": aim,
    "distaim": distaim,
    "naiveflaim": naive_flaim,
    "augflaim_oracle": augflaim_oracle,
    "augflaim_private": flaim,
    "flaim_random": flaim_random,
    "fednaivebayes": fed_naive_bayes,
}
