"""A privacy statement for those who do not compute.

It is one printed page, and an entry for the public registry. The page is for a data protection
officer: A4, no script, nothing from elsewhere. The entry has the fields of the Differential Privacy
Deployments Registry (registry.opendp.org), as `schemas/deployments-schema.yaml` in
github.com/opendp/deployments-registry-data was at commit 3e9c812 (July 2026). It is written as
JSON, which is YAML too.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from fedsynth_lib import __version__
from fedsynth_lib.core.ledger import Total, digest
from fedsynth_lib.core.statement import (
    SECRET_NOISE,
    added_up,
    audited,
    markdown_list,
    templates,
)

UNSAID = "not stated"
MOST_RELEASES = 6  # lines of the page; a longer list is in the statement
MOST_LETTERS = 240  # of a line; a longer one is in the statement


@dataclass(frozen=True)
class Release:
    """What a statement does not know.

    These facts are whose table it is, what leaves the house, for whom and for what.
    """

    name: str
    product: str
    rehearsal: bool
    federated: bool
    curator: str = ""
    recipients: str = ""
    purpose: str = ""
    when: date = field(default_factory=lambda: datetime.now(UTC).date())


def summary_page(
    statement: dict, about: Release, total: Total | None = None, same_rows: Total | None = None
) -> str:
    """Write the statement on one page of HTML.

    total: of all releases about these people, by the name of their population; same_rows: of all
        releases of these very rows, whatever name they went by. Both include this one.
    """
    released = [
        f"{each['what']} ({each['mechanism']}, {each['count']}\N{MULTIPLICATION SIGN})"
        for each in statement["entries"]
        if each["mechanism"] != "public"
    ]
    if more := released[MOST_RELEASES:]:
        released[MOST_RELEASES:] = [f"and {len(more)} more, listed in the statement"]
    return (
        templates()
        .get_template("summary.html")
        .render(
            statement,
            about=about,
            people=total,
            same_rows=same_rows,
            is_rehearsal=_is_rehearsal(statement, about),
            released=released,
            shortened=map(_cut, statement["public_inputs"]),
            fingerprint=digest(statement),
            version=__version__,
            UNSAID=UNSAID,
        )
    )


def _is_rehearsal(statement: dict, about: Release) -> bool:
    return about.rehearsal or SECRET_NOISE not in statement["seed_policy"]


def _cut(text: str) -> str:
    """As much of a line as the page has room for."""
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}… (all in the statement)"


def registry_entry(statement: dict, about: Release, same_rows: Total | None = None) -> str:
    """Write the release as an entry of the registry, a draft.

    Region, sector and justification are the owner's to add. same_rows: as in `summary_page`.

    A rehearsal says so in its name, and has no epsilon: its noise is not secret.
    """
    epsilon, delta = statement["epsilon"], statement["delta"]
    guaranteed = epsilon is not None and not _is_rehearsal(statement, about)
    basic = {
        "name": about.name + " (rehearsal, not released)" * _is_rehearsal(statement, about),
        "data_curators": [about.curator or UNSAID],
        "intended_use": about.purpose or UNSAID,
        "data_product_type": "Synthetic data",
        "data_product_region": UNSAID,
        "description": about.product,
        "publication_date": about.when.isoformat(),
    }
    unprotected = [*statement["unprotected"], *statement["public_inputs"]]
    deployment = {
        "basic": basic,
        "dp_variant": {
            "variant_name": "Approximate DP" if delta else "Pure DP",
            "data_domain": "all tables that the declared schema allows, of any number of records",
            "unprotected_quantities": markdown_list(unprotected) or "none",
        },
        "privacy_loss": {
            "privacy_unit": statement["unit"],
            "privacy_unit_details": f"neighbouring tables: {statement['relation']}",
            "privacy_parameters": {"epsilon": epsilon, "delta": delta} if guaranteed else {},
            "privacy_parameters_details": ". ".join(
                filter(None, [audited(statement["audit"]), added_up(same_rows)])
            ),
        },
        "deployment_model": {
            "model_name": "Federated" if about.federated else "Central",
            "actors": statement["adversary"],
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "synthetic rows are drawn from a model that was made of the noisy "
            "releases alone",
            "composition": f"{statement['accountant']}; clients in parallel, since a record is "
            "with one of them",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "not covered: choice of hyper-parameters",
            "mechanisms": markdown_list(
                [*_mechanisms(statement["entries"]), f"fedsynth {__version__}"]
            ),
        },
        "administrative": {
            "notes": f"privacy statement {digest(statement)}; {statement['seed_policy']}",
            "registry_authors": [about.curator or UNSAID],
        },
    }
    slug = "-".join("".join(c if c.isalnum() else " " for c in about.name.lower()).split())
    return (
        json.dumps(
            {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}, indent=1
        )
        + "\n"
    )


def _mechanisms(entries: list[dict]) -> list[str]:
    noisy = (each for each in entries if each["mechanism"] not in ("public", "unprotected"))
    return [
        f"{each['what']}: {each['mechanism']}, scale {each['scale']:.4g}, {each['count']} times"
        for each in noisy
    ]
