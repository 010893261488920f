"""The report: one static page over everything that has been made, figures/report/index.html.

    python -m fedsynth_lib report

It works offline: style and script (report.css, report.js) stand inside it, pictures are those of
figures/<profile>/.
"""

import html
import os
import re
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from fedsynth_lib.bundle.chapters import CHAPTER_OF, CHAPTERS, exhibit_map
from fedsynth_lib.bundle.console import read_last
from fedsynth_lib.bundle.notebooks import Notebook, read_notebooks
from fedsynth_lib.bundle.report_files import (
    BEST_FIRST,
    KINDS,
    Found,
    find_claims,
    find_results,
    find_verdict,
    read_csv,
)
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.printed.published import (
    KEYS,
    WORKS,
    load_catalogue,
    load_claims,
    load_values,
)

OUTCOMES = {
    "holds": "holds",
    "mostly holds": "partly",
    "mostly fails": "partly",
    "does not hold": "fails",
}
OUTCOMES |= {"not tested": "", "not judged yet": ""}
# end of a cell, or all of it -> class
MARKS = {"=": "within", "≈": "ordering", "≠": "different", **OUTCOMES}


class Html(str):
    """Markup; `tag` and `join` escape any other text."""


def join(parts: Iterable[Any], between: str = "") -> Html:
    return Html(
        between.join(part if isinstance(part, Html) else html.escape(str(part)) for part in parts)
    )


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """`tag("p", "a < b", class_="note")`: an element; an attribute that is None is left out."""
    known = {
        key.rstrip("_").replace("_", "-"): value
        for key, value in attributes.items()
        if value is not None
    }
    given = "".join(f' {key}="{html.escape(str(value))}"' for key, value in known.items())
    return Html(
        f"<{name}{given}>" + ("" if name in ("img", "input") else f"{join(children)}</{name}>")
    )


def folded(summary: Any, *children: Any) -> Html:
    return tag("details", tag("summary", summary), *children)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], **more: Any) -> Html:
    """A table in a frame that scrolls by itself; the first column heads its row. Sortable where it
    has an id."""
    by_click = "id" in more
    heads = [tag("button", name, type="button") if by_click else name for name in header]
    heads = [tag("th", name, scope="col", aria_sort="none" if by_click else None) for name in heads]
    body = []
    for first, *others in rows:
        cells = [tag("td", each, class_=MARKS.get(each) or MARKS.get(each[-1:])) for each in others]
        body.append(tag("tr", tag("th", first, scope="row"), *cells))
    parts = (
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
    )
    return tag(
        "div",
        tag("table", *parts, **more),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def href(path: Path) -> str:
    return quote(Path(os.path.relpath(path, project_root() / "figures" / "report")).as_posix())


def link(path: Path, text: str) -> Any:
    return tag("a", text, href=href(path)) if path.is_file() else text


def readable_copy(source: Path) -> Path:
    """The executed notebook as a page, made anew where the notebook has changed: the page bears its
    time."""
    page = project_root() / "figures" / "report" / "notebooks" / f"{source.stem}.html"
    changed = source.stat().st_mtime_ns
    if not (page.is_file() and page.stat().st_mtime_ns == changed):
        try:
            from nbconvert import HTMLExporter

            exporter = HTMLExporter(
                **{name: "" for name in HTMLExporter.class_trait_names() if name.endswith("_url")}
            )
            exporter.log.setLevel("CRITICAL")  # it misses texts for the pictures of a notebook
            write_atomically(page, exporter.from_filename(str(source))[0].encode())
            os.utime(page, ns=(changed, changed))
        except Exception as error:  # say, half written by another run
            print(
                f"run_all.sh: {source} cannot be shown as a page ({type(error).__name__}).",
                file=sys.stderr,
            )
    return page


def made_from(folder: str) -> Html:
    profile, _, standin = folder.partition("-")
    note = tag("strong", " on stand-in tables, not the real ones") if standin else ""
    return tag("span", f"profile {profile}", note, class_="profile")


def picture(path: Path, alt: str) -> Html:
    """A picture that links to itself, at 110 pixels an inch (figures/style.py saves 300)."""
    head = path.read_bytes()[:24]
    if len(head) < 24 or not head.startswith(b"\x89PNG"):
        raise BadInput(f"{path} is not a PNG picture: run its notebook again.")
    width, height = (round(side * 110 / 300) for side in struct.unpack(">II", head[16:]))
    image = tag("img", src=href(path), alt=alt, width=width, height=height, loading="lazy")
    return tag("a", image, href=href(path), class_="picture")


def read_table(files: Mapping[str, Path], title: str) -> tuple[str, list[str], list[list[str]]]:
    """Caption, header and rows of a saved table: of its Markdown, which is rounded, or else of its
    CSV."""
    text = files[".md"].read_text(encoding="utf-8") if ".md" in files else ""
    text = re.sub(" (?=[±=≈≠])|(?<=±) ", "\N{NO-BREAK SPACE}", text)
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    if lines:
        rows = [[entry.replace("\\|", "|") for entry in line] for line in lines]
        return text.splitlines()[0].strip().replace("`", ""), rows[0], rows[2:]
    frame = read_csv(files[".csv"]).drop(columns=["profile", "data", "version"], errors="ignore")
    return title, list(frame), frame.to_numpy().tolist()


def show(files: Mapping[str, Path], folder: str, title: str) -> Html:
    """Figure and table of one profile, what they were made from, and links to the files."""
    parts = [picture(files[".png"], f"{title}, profile {folder}")] if ".png" in files else []
    if ".csv" in files:
        parts.append(table(*read_table(files, title)))
    links = join(
        [tag("a", KINDS[suffix], href=href(files[suffix])) for suffix in KINDS if suffix in files],
        " · ",
    )
    return tag(
        "div", *parts, tag("p", made_from(folder), " · ", links, class_="source"), class_="result"
    )


def show_all(files: Mapping[str, Mapping[str, Path]], title: str) -> Html:
    """The best profile, and the others folded."""
    first, *others = [show(each, folder, title) for folder, each in files.items()]
    return join(
        [
            first,
            folded(f"The same in other profiles: {', '.join(list(files)[1:])}", *others)
            if others
            else "",
        ]
    )


def printed(values: pd.DataFrame, title: str) -> Html:
    """The printed values of one exhibit, folded; metrics become columns where that fills most
    cells."""
    std = [
        f" ± {s:.{0 if pd.isna(d) else d}f}" if pd.notna(s) else ""
        for s, d in values[["std", "decimals"]].values
    ]
    flag = values["note"].str.match("DOUBT|EXCLUDE").map({True: " †", False: ""})
    keys = values[KEYS].astype(object).where(values[KEYS].notna(), "")
    keys["epsilon"] = [
        f"{each:g}".replace("inf", "∞") if each != "" else "" for each in keys["epsilon"]
    ]
    keys = keys.loc[:, (keys != "").any()]
    keys["value"] = values["printed"] + std + (" " + values["significance"]).str.rstrip() + flag
    wide = keys.groupby(list(keys)[:-1], sort=False)["value"].agg(", ".join).unstack(sort=False)
    keys = (
        wide.fillna("").reset_index()
        if wide.shape[1] <= 10 and wide.notna().to_numpy().mean() > 0.5
        else keys
    )
    notes = [
        tag("li", f"{mark} {note}")
        for note, mark in dict(zip(values["note"], flag, strict=True)).items()
        if note
    ]
    shown = table(
        f"{title}, as printed", [str(name) for name in keys], keys.to_numpy().astype(str).tolist()
    )
    return folded("Printed values", shown, tag("ul", *notes, class_="note") if notes else "")


def map_part(exhibits: pd.DataFrame) -> Html:
    """The map work -> exhibit -> notebook -> status, with its filters."""
    options = [tag("option", "all works", value=""), *[tag("option", work) for work in WORKS]]
    words = tag("label", "Search ", tag("input", type="search", id="words", autocomplete="off"))
    filters = tag(
        "form",
        words,
        tag("label", "Work ", tag("select", *options, id="work")),
        tag("output"),
        id="filter",
    )
    rows = []
    for each in sorted(exhibits.itertuples(), key=lambda each: each.status == "illustrative"):
        label = (
            tag("a", each.exhibit, href=f"#{each.id}")
            if each.status != "illustrative"
            else each.exhibit
        )
        notebook = tag("a", each.notebook, href=f"#{each.notebook}") if each.notebook else ""
        rows.append(
            [
                label,
                each.work,
                each.title,
                notebook,
                each.status,
                each.best.replace("-standin", ", stand-in"),
            ]
        )
    shown = table(
        "Numbered exhibits",
        ["exhibit", "work", "title", "notebook", "status", "made"],
        rows,
        id="exhibits",
    )
    can = exhibits[exhibits["status"] != "illustrative"].drop_duplicates("id")
    note = (
        f"Of {len(can)} exhibits that a run can make, {(can['best'] != '').sum()} have been made. "
        "Status here: a "
    )
    note += (
        "notebook makes it; planned: none does yet; illustrative: a drawing or a list, "
        "nothing to compute."
    )
    return tag("section", tag("h2", "Map", id="map"), tag("p", note), filters, shown)


def verdict_part(claims: pd.DataFrame, judged: pd.DataFrame, found: Found) -> Html:
    """What the notebook of the verdict counted on committed rows, and every claim with its numbers.

    Where that notebook was not run, claims are counted by what the other notebooks saved.
    """
    said = find_verdict(found)
    gathered = {
        name: show_all(found[name], f"Verdict: {name}")
        for name in sorted(found)
        if name.startswith("90_")
    }
    first = gathered.pop("90_headline", None) if said else _counts(claims, judged)
    parts = [first, gathered.pop("90_verdict", "")]
    parts += [
        folded(f"Claims of {work}", claims_table(work, load_claims(work), judged, said))
        for work in WORKS
    ]
    parts.append(
        folded("Tables of the notebook of the verdict", *gathered.values()) if gathered else ""
    )
    note = "Each claim counts once, by the best profile that could tell, paper or quick. Profiles "
    note = tag(
        "p", note, "other than paper are shrunk runs, whose levels are not comparable with print."
    )
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict"),
        note,
        *[part for part in parts if part is not None],
    )


def _counts(claims: pd.DataFrame, judged: pd.DataFrame) -> Html:
    outcome = (
        claims["id"]
        .map(judged.drop_duplicates("id").set_index("id")["outcome"])
        .fillna("not judged yet")
    )
    counts = pd.crosstab(claims["id"].str.partition("/")[0], outcome)
    counts = counts.reindex(index=WORKS, columns=OUTCOMES, fill_value=0)
    counts.loc["all"] = counts.sum()
    rows = [
        [work, str(sum(each)), *map(str, each)]
        for work, each in zip(counts.index, counts.to_numpy(), strict=True)
    ]
    return table("Claims by outcome", ["work", "claims", *OUTCOMES], rows, class_="counts")


def claims_table(
    work: str, claims: pd.DataFrame, judged: pd.DataFrame, verdict: Mapping[str, Mapping]
) -> Html:
    rows = []
    for claim in claims.itertuples():
        said = [each for each in judged.itertuples() if each.id == claim.id]
        texts = [
            tag("p", made_from(each.folder), f" ({each.outcome}): {each.evidence}") for each in said
        ]
        others = folded(f"in other profiles: {len(texts) - 1}", *texts[1:]) if texts[1:] else ""
        line = verdict.get(claim.id, {"outcome": said[0].outcome if said else "not judged yet"})
        share = (
            f"Share that holds: {float(line['share']):.2f} (profile {line['profile']})"
            if line.get("share")
            else ""
        )
        fails = f". Fails: {line['fails']}" if line.get("fails") else ""
        note = (
            "On the printed values: "
            f"{line.get('on print') or claim.holds_on_published_values or 'not examined'}"
        )
        text = [
            tag("span", claim.id.rpartition("/")[2], class_="id"),
            claim.claim,
            tag("p", note, class_="note"),
        ]
        rows.append(
            [
                join(text),
                line["outcome"],
                join([tag("p", share + fails) if share else "", *texts[:1], others]),
            ]
        )
    return table(
        f"Claims of {work}, judged on our rows",
        ["claim", "outcome", "numbers"],
        rows,
        class_="claims",
    )


def work_part(work: str, exhibits: pd.DataFrame, found: Found) -> Html:
    """Each exhibit of a work that a run can make, beside what the work prints."""
    values = load_values(work, excluded=True)
    protocol = link(
        project_root() / "data" / "published" / f"protocol_{work}.md", "Protocol of the work"
    )
    parts = [tag("p", protocol, " in plain words, with its gaps and how they are resolved here.")]
    for each in exhibits[exhibits["status"] != "illustrative"].drop_duplicates("id").itertuples():
        name, title = (
            f"{work}_{each.exhibit}",
            f"{each.kind.capitalize()} {each.number} of {work}: {each.title}",
        )
        by = [stem for stem in exhibits.loc[exhibits["id"] == each.id, "notebook"] if stem]
        none = (
            f"Nothing has been made yet: ./run_all.sh --only {by[0]}"
            if by
            else "No notebook makes it yet."
        )
        own, said = (
            found.get(name),
            [printed(v, title) for k, v in values.groupby("exhibit") if k == each.exhibit],
        )
        label = tag("span", f"{each.kind.capitalize()} {each.number}", class_="id")
        parts += [tag("h3", label, each.title, id=each.id), tag("p", each.what_it_shows)]
        parts += [
            tag("p", "Notebook ", tag("a", stem, href=f"#{stem}"), class_="note") for stem in by
        ]
        parts += [show_all(own, title) if own else tag("p", none, class_="none"), *said]
        for other in (each for each in sorted(found) if each.startswith(f"{name}_")):
            words = other.removeprefix(f"{name}_").replace("_", " ")
            parts.append(folded(words.capitalize(), show_all(found[other], f"{title}, {words}")))
    stated = values[~values["exhibit"].isin(exhibits["exhibit"])]
    parts += (
        [tag("h3", "Stated in the text"), printed(stated, f"Numbers in the text of {work}")]
        if len(stated)
        else []
    )
    return tag("section", tag("h2", CHAPTERS[CHAPTER_OF[work]], id=work), *parts)


def notebook_part(notebooks: Sequence[Notebook]) -> Html:
    """The notebooks, their executed copies, and how the last run of each ended."""
    last, rows, executed = read_last(project_root()), [], project_root() / "figures" / "executed"
    for each in notebooks:
        copies = {
            name: path
            for name in BEST_FIRST
            if (path := executed / name / each.path.name).is_file()
        }
        read = [
            link(readable_copy(path), f"read ({name})") for name, path in list(copies.items())[:1]
        ]
        copied = join(
            [*read, *[link(path, f"{name}.ipynb") for name, path in copies.items()]]
            or ["none yet"],
            " · ",
        )
        ended = " ".join(
            last.get(each.stem, {}).get(key, "") for key in ("status", "profile", "finished")
        )
        rows.append(
            [tag("span", link(each.path, each.stem), id=each.stem), each.title, copied, ended]
        )
    shown = table(
        "Notebooks and their executed copies",
        ["notebook", "question", "executed", "last run here"],
        rows,
    )
    findings = link(
        project_root() / "data" / "published" / "findings.md", "Findings about the works"
    )
    note = tag(
        "p",
        findings,
        ": their mistakes and gaps in privacy, and where this bundle departs from them.",
    )
    return tag("section", tag("h2", "Notebooks and findings", id="notebooks"), note, shown)


def page() -> str:
    """The whole page, from what lies in data/published, notebooks and figures."""
    notebooks, found, judged = (
        read_notebooks(project_root() / "notebooks"),
        find_results(),
        find_claims(),
    )
    exhibits = exhibit_map(notebooks).assign(
        id=lambda table: table["work"] + "/" + table["exhibit"]
    )
    exhibits = exhibits.merge(load_catalogue()[["id", "number", "what_it_shows"]], on="id")
    exhibits["best"] = [
        next(iter(found.get(each.replace("/", "_"), ())), "") for each in exhibits["id"]
    ]
    works = [work_part(work, exhibits[exhibits["work"] == work], found) for work in WORKS]
    verdict = verdict_part(load_claims(), judged, found)
    main = tag(
        "main",
        map_part(exhibits),
        verdict,
        *works,
        notebook_part(notebooks),
        id="main",
        tabindex=-1,
    )
    names = [tag("a", name, href=f"#{name}") for name in ("map", "verdict", *WORKS, "notebooks")]
    style, script = (
        Path(__file__).with_name(f"report.{kind}").read_text(encoding="utf-8")
        for kind in ("css", "js")
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fedsynth: report</title><link rel="icon" href="data:,"><style>{style}</style></head>
<body><a class="skip" href="#main">Skip to the content</a>
<header><h1>fedsynth</h1>
<p>Five published works on federated, differentially private synthetic tables, run again:
every table and figure beside what the work prints, from what lies in <code>figures/</code>.</p>
</header>
<nav aria-label="Parts">{join(names, " ")}</nav>{main}<script>{script}</script></body></html>
"""


def refresh() -> str:
    """Build the page; one line that says where it is, or why the old one stays. Nothing is
    raised."""
    target = project_root() / "figures" / "report" / "index.html"
    try:
        write_atomically(target, page().encode())
    except Exception as error:
        return (
            f"The report could not be built: {' '.join(str(error).split()) or type(error).__name__}"
        )
    return f"The report: {target}"
