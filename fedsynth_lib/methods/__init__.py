"""The methods, one module each; this is the only registry."""

from fedsynth_lib.methods import (
    aim,
    augflaim_oracle,
    bayesian_network,
    ctgan,
    distaim,
    dp_ctgan,
    dp_fed_ctgan,
    fed_ctgan,
    fed_dp_ctgan,
    fed_naive_bayes,
    fed_tgan,
    fedvae,
    flaim,
    flaim_random,
    independent,
    naive_flaim,
)

METHODS = {
    "independent": independent,
    "fedbn": bayesian_network,
    "fedvae": fedvae,
    "aim": aim,
    "distaim": distaim,
    "naiveflaim": naive_flaim,
    "augflaim_oracle": augflaim_oracle,
    "augflaim_private": flaim,
    "flaim_random": flaim_random,
    "fednaivebayes": fed_naive_bayes,
    "ctgan": ctgan,
    "dpctgan": dp_ctgan,
    "fedtgan": fed_tgan,
    "fedctgan": fed_ctgan,
    "dpfedctgan": dp_fed_ctgan,
    "feddpctgan": fed_dp_ctgan,
}
