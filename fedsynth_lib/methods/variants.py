"""Variants: methods with the verbs of another and other defaults in its Config, as data.

A variant changes no verb. Where it behaves in another way, one of its settings says so, and the
base's verbs read that setting: FLAIM without a choice, a GAN whose generator is trained by the
server. `load` makes a method of its source, and `from fedsynth_lib.methods.variants import aim`
does so by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from fedsynth_lib.core.contract import Method


@dataclass(frozen=True)
class Variant:
    """base: the file of a family (`marginals.flaim`) or another variant. trust, version: where they
    differ from the base's. as_published: see `core/contract.py`."""

    base: str
    defaults: Mapping[str, Any]
    trust: str | None = None
    version: int | None = None
    as_published: Mapping[str, Any] = field(default_factory=dict)


ONE_WAY_AS_ANY = {"filter_one_way": False, "combine_one_way": False}
PUBLISHED_DP_FED_CTGAN = {
    "encoding": "federated",
    "sampling": "by_condition",
    "start_from_marginals": False,
    "condition_weight": 0.0,
}

VARIANTS: dict[str, Variant] = {
    # AIM (McKenna et al. 2022; maddock2024, algorithm 2) is DistAIM with every client in every
    # round. With one client it is the central algorithm; with several, whose counts lie in shares
    # among the compute servers, the model is the same as if one curator held all rows.
    "aim": Variant("marginals.distaim", {"participation": 1.0}),
    # every client scores by its own rows alone, all measurements weigh the same (maddock2024,
    # section 4.1)
    "naive_flaim": Variant(
        "marginals.flaim", {"penalty": "none", **ONE_WAY_AS_ANY, "weighted": False}
    ),
    # scores less the true heterogeneity, which nobody may know (maddock2024, section 4.2): in the
    # first round every client hands over its rows
    "augflaim_oracle": Variant("marginals.flaim", {"penalty": "true", **ONE_WAY_AS_ANY}),
    # one random candidate a round, and the whole budget measures (maddock2024, section 5.1)
    "flaim_random": Variant(
        "marginals.flaim",
        {"selection": "random", "penalty": "none", **ONE_WAY_AS_ANY, "weighted": False},
    ),
    # one-way marginals only, with the whole budget: columns stay independent (maddock2024,
    # section 5.1)
    "fed_naive_bayes": Variant(
        "marginals.flaim",
        {"selection": "none", "penalty": "none", **ONE_WAY_AS_ANY, "weighted": False},
    ),
    # bins that follow noisy histograms, in a round of their own
    "fedpgm_bins": Variant("marginals.fedpgm", {"bins": "private"}),
    # Fed-CTGAN: DP-Fed-CTGAN without its privacy (leitner2023, section 5.1.3, table 5.3); nothing
    # of it is protected. The work does not say which losses it has. Table 5.3 gives it the settings
    # of Wasserstein training, 10 rows judged together and three steps of the discriminator, on top
    # of CTGAN's defaults; hence CTGAN's own losses are taken here. Those of algorithm 4.2 are a
    # setting: loss 'cross_entropy' with condition_weight 0; they were tried first, and learned less
    # (`findings.md`).
    "fed_ctgan": Variant(
        "gan.ctgan",
        {
            "critic_steps": 3,
            "generator_decay": 1e-5,
            "discriminator_decay": 1e-5,
            "encoding": "federated",
        },
    ),
    # Fed-TGAN (Zhao et al. 2021, as leitner2023 re-implemented it): clients share the frequencies
    # of their categories. With them, and with its own mixtures, the server weighs clients by how
    # like all rows theirs are (`similarity_weights`), and draws conditions by itself. Otherwise it
    # trains as Fed-CTGAN does; nothing of it is protected.
    "fed_tgan": Variant("fed_ctgan", {"encoding": "variational", "weighting": "similarity"}),
    # DP-Fed-CTGAN (leitner2023, chapter 4, tables 5.2 and 5.3), by default private from end to end.
    # As published, mixtures, categories and conditions leave a client without noise, and rows are
    # drawn by the frequencies of their categories, which is not the sampling that the accountant
    # assumes: `as_published` does so, and the run's statement lists it all as unprotected. The
    # default releases noisy histograms in their place, draws rows by Poisson sampling and reads
    # conditions off them; its epsilon covers everything. Since the histograms are paid for, the
    # generator may start from them, and be told when it misses a condition drawn from them, both of
    # which the published scheme leaves out. Give Privacy an epsilon, or a noise multiplier and here
    # stop_epsilon.
    "dp_fed_ctgan": Variant(
        "fed_ctgan",
        {
            "loss": "cross_entropy",
            "pac": 1,
            "critic_steps": 1,
            "clip": 1.0,
            "encoding": "private",
            "sampling": "poisson",
            "start_from_marginals": True,
        },
        trust="local noise",
        as_published=PUBLISHED_DP_FED_CTGAN,
    ),
    # central DP-CTGAN (Rosenblatt et al. 2020, SmartNoise; the baseline of leitner2023), by default
    # private from end to end
    "dp_ctgan": Variant(
        "dp_fed_ctgan",
        {"generator_decay": 1e-6, "discriminator_decay": 1e-6},
        as_published={**PUBLISHED_DP_FED_CTGAN, "encoding": "variational"},
    ),
    # Federated DP-CTGAN of maddock2024 (its table 1; appendix B.4.1 as far as it can be read, clip
    # 1 and batch 128 are assumptions): discriminators on the clients, the generator on the server.
    # In each of 500 rounds a tenth of the clients makes one private step of the discriminator on a
    # batch of its rows; the server averages, and makes one step of the generator. A client that has
    # taken part in most_rounds stays out, as the work's own count of steps assumes. Every column is
    # binned. The work draws conditions from the raw frequencies of all rows; here they come from
    # noisy histograms that the budget pays for.
    "fed_dp_ctgan": Variant(
        "dp_fed_ctgan",
        {
            "training_rounds": 500,
            "participation": 0.1,
            "most_rounds": 51,
            "batch": 128,
            "discriminator_rate": 1e-3,
            "generator_rate": 1e-5,
            "generator_at": "server",
            "bins": 32,
        },
    ),
    # VAE-BGM private from end to end, which apellaniz2025 names as future work: rows and generators
    # may leave a node. One network, since each that trains on a record's row is paid for; a mixture
    # of few components, from noisy sums. Version 2: each node has the noise that its own rows need.
    "dp_vae_bgm": Variant(
        "vae_bgm.vae_bgm",
        {"networks": 1, "local_epochs": 20, "components": 3, "clip": 1.0},
        trust="local noise",
        version=2,
    ),
}


@cache
def load(source: str) -> Method:
    """The method that a file of a family (`marginals.flaim`) or an entry of VARIANTS (`aim`)
    makes; what it needs is imported now."""
    if source not in VARIANTS:
        return Method.of(import_module(f"{__package__}.{source}"))
    variant = VARIANTS[source]
    return load(variant.base).variant(
        source,
        trust=variant.trust,
        version=variant.version,
        as_published=variant.as_published,
        module=__name__,
        **variant.defaults,
    )


def __getattr__(name: str) -> Method:
    """A variant by its name, as `import` and unpickling a Config ask for it."""
    if name in VARIANTS:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
