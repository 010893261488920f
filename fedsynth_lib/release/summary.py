"""A privacy statement for those who do not compute: one printed page, and an entry for the public
registry.

The page is for a data protection officer: A4, no script, nothing from elsewhere. The entry has the
fields of the Differential Privacy Deployments Registry (registry.opendp.org), as
`schemas/deployments-schema.yaml` in github.com/opendp/deployments-registry-data stood at commit
3e9c812 (July 2026); as JSON, which is YAML too.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from html import escape

from fedsynth_lib import __version__
from fedsynth_lib.core.ledger import Total, digest
from fedsynth_lib.core.statement import (
    BEYOND,
    PROMISES_NOTHING,
    added_up,
    audited,
    markdown_list,
    odds,
    promises,
)

UNSAID = "not stated"
# what the seed policy of a statement says of noise that is fit for release
SECRET_NOISE = "not repeatable"
MOST_RELEASES = 6  # lines of the page; a longer list is in the statement
MOST_LETTERS = 240  # of a line; a longer one is in the statement


@dataclass(frozen=True)
class Release:
    """What a statement does not know: whose table it is, what leaves the house, for whom and for
    what."""

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
    """The statement on one page of HTML.

    total: of all releases about these people, by the name of their population; same_rows: of all
        releases of these very rows, whatever name they went by. Both with this one.
    """
    facts = {
        "Released": about.product,
        "By": about.curator or UNSAID,
        "To": about.recipients or UNSAID,
        "For": about.purpose or UNSAID,
        "Method": f"{statement['method']}, fedsynth {__version__}",
        "Protected": f"{statement['unit']}, added or removed; a person with k records has k times "
        "the epsilon",
        "Protected from": statement["adversary"],
        "Who must be trusted": statement["trust"],
        "Measured": audited(statement),
        "All releases about these people": _total(total),
        "All releases of these rows": _total(same_rows),
        "Accountant": statement["accountant"],
        "Full statement": f"fingerprint {digest(statement)}",
    }
    title = f"Privacy summary: {escape(about.name)}"
    table = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items()
    )
    columns = (
        ("Released about the records", _releases(statement["entries"])),
        ("Treated as public, not protected", map(_cut, statement["public_inputs"])),
        ("Not covered", [*statement["not_covered"].split("; "), *BEYOND]),
    )
    lists = "".join(f"<section><h2>{name}</h2>{_list(items)}</section>" for name, items in columns)
    signed = "<footer><span>Approved by</span><span>Date</span><span>Signature</span></footer>"
    return PAGE.format(
        title=title,
        day=about.when.isoformat(),
        promise=_promise(statement, about, same_rows),
        table=table,
    ) + (f'<div class="lists">{lists}</div>{signed}</body></html>\n')


def _promise(statement: dict, about: Release, same_rows: Total | None) -> str:
    """The box at the top: what is guaranteed, or that nothing is."""
    epsilon, delta = statement["epsilon"], statement["delta"]
    if epsilon is None:
        bare = escape(", ".join(statement["unprotected"]))
        return (
            f'<div class="box bad"><b>No guarantee.</b> This left without noise: {bare}. Do not '
            "hand on.</div>"
        )
    rest = f", except with probability {delta:g}." if delta else "."
    words = (
        f"Whether one record is in the table or not, no outcome becomes {odds(epsilon)}{rest}"
        if promises(epsilon)
        else f"<b>{PROMISES_NOTHING}</b>"
    )
    promise = f"<b>&epsilon; = {epsilon:.4g}, &delta; = {delta:g}.</b> {words}"
    if _is_rehearsal(statement, about):
        return (
            '<div class="box bad"><b>Rehearsal: do not hand on.</b> The noise is not secret. '
            f"{promise}</div>"
        )
    together = same_rows if same_rows is not None and same_rows.releases > 1 else None
    if together is not None:
        promise += f" {added_up(together)}"
    weak = not promises(max(epsilon, together.epsilon if together else 0.0))
    box = "box bad" if weak else "box"
    return f'<div class="{box}">{promise} The noise is secret and cannot be drawn again.</div>'


def _is_rehearsal(statement: dict, about: Release) -> bool:
    return about.rehearsal or SECRET_NOISE not in statement["seed_policy"]


def _total(total: Total | None) -> str:
    if total is None:
        return "a rehearsal is not counted"
    of = f" ({total.of})" if total.of else ""
    return (
        f"{total.releases}{of}, with epsilon {total.epsilon:.4g} and delta {total.delta:g} together"
    )


def _releases(entries: list[dict]) -> list[str]:
    lines = [
        f"{each['what']} ({each['mechanism']}, {each['count']}\N{MULTIPLICATION SIGN})"
        for each in entries
        if each["mechanism"] != "public"
    ]
    rest = len(lines) - MOST_RELEASES
    return (
        lines
        if rest <= 0
        else [*lines[:MOST_RELEASES], f"and {rest} more, listed in the statement"]
    )


def _cut(text: str) -> str:
    """As much of a line as the page has room for."""
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}… (all in the statement)"


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
@page {{ size: A4; margin: 16mm }}
body {{ font: 9.5pt/1.35 sans-serif; color: #111; max-width: 178mm; margin: 8mm auto }}
h1 {{ font-size: 15pt; margin: 0 }}
h2 {{ font-size: 10pt; margin: 0 0 1mm }} .day {{ color: #555; margin: 0 0 4mm }}
.box {{ border: 0.5mm solid #1a5276; padding: 3mm 4mm; margin: 0 0 4mm; font-size: 10.5pt }}
.box b {{ font-size: 12pt }}
.bad {{ border-color: #b00020 }} .bad b:first-child {{ color: #b00020 }}
table {{ border-collapse: collapse; width: 100%; margin: 0 0 4mm }}
th {{ text-align: left; font-weight: 600; width: 36mm }} td {{ overflow-wrap: anywhere }}
th, td {{ padding: 1mm 2mm 1mm 0; border-bottom: 0.2mm solid #ccc; vertical-align: top }}
.lists {{ display: grid; grid-template-columns: repeat(3, 1fr); gap: 6mm }}
ul {{ margin: 0; padding-left: 4mm }}
li {{ font-size: 8.5pt }} footer {{ display: flex; gap: 6mm; margin-top: 14mm }}
footer span {{ flex: 1; border-top: 0.2mm solid #111; padding-top: 1mm; color: #555 }}
@media print {{ body {{ margin: 0 }} }}
</style></head><body><h1>{title}</h1><p class="day">{day}</p>{promise}<table>{table}</table>
"""


def registry_entry(statement: dict, about: Release, same_rows: Total | None = None) -> str:
    """The release as an entry of the registry, a draft; region, sector and justification are the
    owner's to add. same_rows: as in `summary_page`.

    A rehearsal says so in its name, and has no epsilon: its noise is not secret.
    """
    epsilon, delta = statement["epsilon"], statement["delta"]
    guaranteed = epsilon is not None and not _is_rehearsal(statement, about)
    several = added_up(same_rows) if same_rows is not None and same_rows.releases > 1 else ""
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
            "privacy_parameters_details": ". ".join(filter(None, [audited(statement), several])),
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
