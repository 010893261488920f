"""The page for a data protection officer and the entry for the registry say what the statement
says."""

import json
import re
from dataclasses import replace
from datetime import date

import pytest

from fedsynth_lib.core.contract import Charge, Privacy
from fedsynth_lib.core.ledger import Total, digest
from fedsynth_lib.core.statement import statement
from fedsynth_lib.release.summary import Release, registry_entry, summary_page

ABOUT = Release(
    "Ward 7 & 8", "500 synthetic rows", rehearsal=False, federated=True, when=date(2026, 3, 1)
)
CHARGES = [
    Charge("number of rows", "laplace", 50.0),
    Charge("counts <of> pairs", "gaussian", 9.0, times=3),
]


def said(*more, seed=None, delta=1e-6):
    privacy = Privacy(1.0, delta, noise_seed=seed)
    return statement([*CHARGES, *more], privacy, public_inputs=["the schema"], method="aim")


def words(page):
    return " ".join(re.sub(r"<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())


def test_the_page_tells_the_promise_and_what_it_rests_on():
    told = said()
    page = summary_page(told, ABOUT, Total(2, 1.75, 2e-6))
    text = words(page)
    assert (
        f"&epsilon; = {told['epsilon']:.4g}, &delta; = 1e-06." in text and "times as likely" in text
    )
    for part in (
        "Privacy summary: Ward 7 &amp; 8 2026-03-01",
        "500 synthetic rows",
        "counts &lt;of&gt; pairs (gaussian, 3\N{MULTIPLICATION SIGN})",
        "no lower bound of epsilon was measured",
        "2, with epsilon 1.75 and delta 2e-06 together",
        "the schema",
        "choice of hyper-parameters",
        digest(told),
        "The noise is secret",
    ):
        assert part in text, part
    audit = {"claimed": 1.0, "lower": 0.42, "runs": 500}
    assert "at epsilon 1 proves 0.42 at least (95 percent, 500 runs" in words(
        summary_page(told | {"audit": audit}, ABOUT)
    )


def test_the_page_needs_nothing_from_elsewhere():
    page = summary_page(said(), ABOUT)
    assert not re.search(r"<script|<link|<img|url\(|https?:|@import", page) and "size: A4" in page
    hostile = summary_page(said(), replace(ABOUT, name="<script>", curator='"><img src=x>'))
    assert "<script" not in hostile and "<img" not in hostile


def test_what_must_not_be_handed_on_says_so_first():
    assert "Rehearsal: do not hand on. The noise is not secret." in words(
        summary_page(said(seed="run"), ABOUT)
    )
    assert "Rehearsal: do not hand on." in words(
        summary_page(said(), replace(ABOUT, rehearsal=True))
    )
    bare = words(summary_page(said(Charge("ranges", "unprotected")), ABOUT))
    assert (
        "No guarantee. This left without noise: ranges. Do not hand on." in bare
        and "&epsilon; =" not in bare
    )


def test_long_lists_end_with_their_number():
    more = [Charge(f"counts {k}", "laplace", 100.0 + k) for k in range(20)]
    assert "and 16 more, listed in the statement" in words(summary_page(said(*more), ABOUT))


# As the registry's schema stands: required fields, and the words that it takes.
BASIC = {
    "name",
    "data_curators",
    "intended_use",
    "data_product_type",
    "data_product_region",
    "description",
}
KNOWN = {
    "basic": BASIC | {"publication_date", "data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit",
        "privacy_unit_details",
        "privacy_parameters",
        "privacy_parameters_details",
    },
    "deployment_model": {
        *("model_name", "model_name_details", "actors", "release_type", "release_type_details"),
        *("data_source_type", "data_source_type_details", "access_type", "access_type_details"),
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_entry_has_the_fields_of_the_registry(delta):
    charges = [] if delta else [Charge("counts", "laplace", 2.0)]
    told = (
        said(delta=delta)
        if delta
        else statement(charges, Privacy(1.0, noise_seed=None), method="fedbn")
    )
    entry = json.loads(
        registry_entry(told, replace(ABOUT, curator="Clinic", federated=bool(delta)))
    )
    assert set(entry) == {"url_slug", "status", "tier", "deployment"}
    assert (entry["url_slug"], entry["status"], entry["tier"]) == ("ward-7-8", "Draft", 3)
    deployment = entry["deployment"]
    assert set(deployment) == set(KNOWN) and all(
        set(deployment[part]) <= KNOWN[part] for part in KNOWN
    )
    assert BASIC | {"publication_date"} <= set(deployment["basic"])
    assert (
        deployment["basic"]["data_curators"] == ["Clinic"]
        and deployment["basic"]["publication_date"] == "2026-03-01"
    )
    assert deployment["dp_variant"]["variant_name"] == ("Approximate DP" if delta else "Pure DP")
    assert deployment["deployment_model"]["model_name"] == ("Federated" if delta else "Central")
    assert deployment["privacy_loss"]["privacy_parameters"] == {
        "epsilon": told["epsilon"],
        "delta": delta,
    }
    texts = [
        text for part in deployment.values() for text in part.values() if isinstance(text, str)
    ]
    assert all(texts)


def test_an_entry_without_a_guarantee_has_no_epsilon():
    rehearsed = json.loads(registry_entry(said(seed="run"), ABOUT))["deployment"]
    assert (
        rehearsed["privacy_loss"]["privacy_parameters"] == {}
        and "rehearsal" in rehearsed["basic"]["name"]
    )
    entry = json.loads(registry_entry(said(Charge("ranges", "unprotected")), ABOUT))["deployment"]
    assert entry["privacy_loss"]["privacy_parameters"] == {}
    assert entry["dp_variant"]["unprotected_quantities"].startswith("* ranges\n")
