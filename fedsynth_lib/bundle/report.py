"""The report: one static page over everything that has been made, figures/report/index.html.

    ./run_all.sh report

What it shows is gathered here, its form is report.html, a Jinja template. It works offline: style
and script (report.css, report.js) stand inside it, pictures are those of figures/.
"""

import os
import re
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from fedsynth_lib.bundle.chapters import CHAPTER_OF, CHAPTERS, exhibit_map
from fedsynth_lib.bundle.console import read_last
from fedsynth_lib.bundle.notebooks import Notebook, read_notebooks
from fedsynth_lib.bundle.report_files import (
    KINDS,
    Found,
    find_claims,
    find_results,
    find_verdict,
    read_csv,
)
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.printed import outcomes
from fedsynth_lib.printed.published import (
    KEYS,
    WORKS,
    load_catalogue,
    load_claims,
    load_values,
)
from fedsynth_lib.runs.rows import PROFILES

OUTCOMES = dict.fromkeys((*outcomes.OUTCOMES, "not judged yet"), "")
OUTCOMES |= {"holds": "holds", "partly": "partly", "not in full": "partly"}
OUTCOMES |= {"does not hold": "fails"}
# end of a cell, or all of it -> class
MARKS = {"=": "within", "↕": "ordering", "≠": "different", "~": "", "∞": "", **OUTCOMES}


class Table(NamedTuple):
    """A table of the page; the first entry of a row heads it. Sortable where it has an id."""

    caption: str
    header: Sequence[str]
    rows: Iterable[Sequence[str]]
    id: str = ""
    kind: str = ""


class Result(NamedTuple):
    """Figure and table of one profile, and links to the files: (kind, address)."""

    folder: str
    alt: str
    picture: tuple[str, int, int] | None  # address, width, height
    table: Table | None
    files: Sequence[tuple[str, str]]


class Printed(NamedTuple):
    """Printed values, and what is noted of them: (mark, note)."""

    table: Table
    notes: Sequence[tuple[str, str]]


def mark_of(cell: str) -> str | None:
    """The class of a cell by its mark or outcome; None for all others."""
    return MARKS.get(cell) or MARKS.get(cell[-1:])


def address(path: Path) -> str:
    return quote(Path(os.path.relpath(path, project_root() / "figures" / "report")).as_posix())


def link(path: Path, text: str) -> str:
    """A link to the file, or the text alone where there is none."""
    return Markup('<a href="{}">{}</a>').format(address(path), text) if path.is_file() else text


def to_part(name: str, text: str) -> Markup:
    """A link to a part of the page."""
    return Markup('<a href="#{}">{}</a>').format(name, text)


def readable_copy(source: Path) -> Path:
    """The executed notebook as a page, made anew where the notebook has changed: the page bears its
    time."""
    page = project_root() / "figures" / "report" / "notebooks" / f"{source.stem}.html"
    changed = source.stat().st_mtime_ns
    if not (page.is_file() and page.stat().st_mtime_ns == changed):
        try:
            from fedsynth_lib.bundle.report_pages import page_of

            write_atomically(page, page_of(source).encode())
            os.utime(page, ns=(changed, changed))
        except Exception as error:  # say, half written by another run
            print(
                f"run_all.sh: {source} cannot be shown as a page ({type(error).__name__}).",
                file=sys.stderr,
            )
    return page


# --- results -------------------------------------------------------------------------------------


def picture(path: Path) -> tuple[str, int, int]:
    """Address, width and height of a picture at 110 pixels an inch (figures/style.py saves 300)."""
    head = path.read_bytes()[:24]
    if len(head) < 24 or not head.startswith(b"\x89PNG"):
        raise BadInput(f"{path} is not a PNG picture: run its notebook again.")
    width, height = (round(side * 110 / 300) for side in struct.unpack(">II", head[16:]))
    return address(path), width, height


def read_table(files: Mapping[str, Path], title: str) -> Table:
    """A saved table: of its Markdown, which is rounded, or else of its CSV."""
    text = files[".md"].read_text(encoding="utf-8") if ".md" in files else ""
    text = re.sub(" (?=[±=↕≠])|(?<=±) ", "\N{NO-BREAK SPACE}", text)
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    if lines:
        rows = [[entry.replace("\\|", "|") for entry in line] for line in lines]
        return Table(text.splitlines()[0].strip().replace("`", ""), rows[0], rows[2:])
    frame = read_csv(files[".csv"]).drop(columns=["profile", "data", "version"], errors="ignore")
    return Table(title, list(frame), frame.to_numpy().tolist())


def results(files: Mapping[str, Mapping[str, Path]], title: str) -> list[Result]:
    """A result in every profile that has it, the best first."""
    return [
        Result(
            folder,
            f"{title}, profile {folder}",
            picture(own[".png"]) if ".png" in own else None,
            read_table(own, title) if ".csv" in own else None,
            [(KINDS[kind], address(own[kind])) for kind in KINDS if kind in own],
        )
        for folder, own in files.items()
    ]


def printed(values: pd.DataFrame, title: str) -> Printed:
    """The printed values of one exhibit; metrics become columns where that fills most cells."""
    decimals = values["decimals"].fillna(0).astype(int)
    std = [
        f" ± {spread:.{places}f}" if pd.notna(spread) else ""
        for spread, places in zip(values["std"], decimals, strict=True)
    ]
    flag = values["note"].str.match("DOUBT|EXCLUDE").map({True: " †", False: ""})
    keys = values[KEYS].astype(object).where(values[KEYS].notna(), "")
    keys["epsilon"] = [
        f"{each:g}".replace("inf", "∞") if each != "" else "" for each in keys["epsilon"]
    ]
    keys = keys.loc[:, (keys != "").any()]
    keys["value"] = values["printed"] + std + (" " + values["significance"]).str.rstrip() + flag
    wide = keys.groupby(list(keys)[:-1], sort=False)["value"].agg(", ".join).unstack(sort=False)
    if wide.shape[1] <= 10 and wide.notna().to_numpy().mean() > 0.5:
        keys = wide.fillna("").reset_index()
    marks = dict(zip(values["note"], flag, strict=True))
    rows = keys.to_numpy().astype(str).tolist()
    return Printed(
        Table(f"{title}, as printed", [str(name) for name in keys], rows),
        [(mark, note) for note, mark in marks.items() if note],
    )


# --- parts ---------------------------------------------------------------------------------------


def map_table(exhibits: pd.DataFrame) -> Table:
    """The map work -> exhibit -> notebook -> status."""
    rows = []
    for each in sorted(exhibits.itertuples(), key=lambda each: each.status == "illustrative"):
        shown = each.status != "illustrative"
        rows.append(
            [
                to_part(each.id, each.exhibit) if shown else each.exhibit,
                each.work,
                each.title,
                to_part(each.notebook, each.notebook) if each.notebook else "",
                each.status,
                each.best.replace("-standin", ", stand-in"),
            ]
        )
    header = ["exhibit", "work", "title", "notebook", "status", "made"]
    return Table("Numbered exhibits", header, rows, id="exhibits")


def verdict_part(claims: pd.DataFrame, judged: pd.DataFrame, found: Found) -> dict[str, Any]:
    """What the notebook of the verdict counted on committed rows, and every claim with its numbers.

    Where that notebook was not run, claims are counted by what the other notebooks saved.
    """
    said = find_verdict(found)
    gathered = {
        name: results(found[name], f"Verdict: {name}")
        for name in sorted(found)
        if name.startswith("90_")
    }
    headline = gathered.pop("90_headline", None)
    return {
        "headline": headline if said else None,
        "counts": counts(claims, judged),
        "picture": gathered.pop("90_verdict", None),
        "claims": {work: claims_table(work, judged, said) for work in WORKS},
        "gathered": list(gathered.values()),
    }


def counts(claims: pd.DataFrame, judged: pd.DataFrame) -> Table:
    """Claims by outcome, for each work and in all."""
    known = judged.drop_duplicates("id").set_index("id")["outcome"]
    outcome = claims["id"].map(known).fillna("not judged yet")
    table = pd.crosstab(claims["id"].str.partition("/")[0], outcome)
    table = table.reindex(index=WORKS, columns=OUTCOMES, fill_value=0)
    table.loc["all"] = table.sum()
    rows = [
        [work, str(sum(each)), *map(str, each)]
        for work, each in zip(table.index, table.to_numpy(), strict=True)
    ]
    return Table("Claims by outcome", ["work", "claims", *OUTCOMES], rows, kind="counts")


def claims_table(work: str, judged: pd.DataFrame, verdict: Mapping[str, Mapping]) -> Table:
    """Every claim of a work: its text, its outcome, the numbers it rests on in every profile."""
    rows = []
    for claim in load_claims(work).itertuples():
        said = [each for each in judged.itertuples() if each.id == claim.id]
        line = verdict.get(claim.id, {"outcome": said[0].outcome if said else "not judged yet"})
        on_print = line.get("on print") or claim.holds_on_published_values or "not examined"
        text = Markup('<span class="id">{}</span>{}<p class="note">On the printed values: {}</p>')
        rows.append(
            [
                text.format(claim.id.rpartition("/")[2], claim.claim, on_print),
                line["outcome"],
                numbers(line, said),
            ]
        )
    header = ["claim", "outcome", "numbers"]
    return Table(f"Claims of {work}, judged on our rows", header, rows, kind="claims")


def numbers(line: Mapping[str, str], said: Sequence[Any]) -> Markup:
    """What a claim rests on: the share that holds, then the evidence of each profile."""
    texts = []
    if line.get("share"):
        share = f"Share that holds: {float(line['share']):.2f} (profile {line['profile']})"
        fails = f". Fails: {line['fails']}" if line.get("fails") else ""
        texts.append(Markup("<p>{}</p>").format(share + fails))
    evidence = [
        Markup("<p>{} ({}): {}</p>").format(made_from(each.folder), each.outcome, each.evidence)
        for each in said
    ]
    texts += evidence[:1]
    if others := evidence[1:]:
        folded = Markup("<details><summary>in other profiles: {}</summary>{}</details>")
        texts.append(folded.format(len(others), Markup("").join(others)))
    return Markup("").join(texts)


def made_from(folder: str) -> Markup:
    """The profile that something was made in, and whether on stand-ins."""
    profile, _, standin = folder.partition("-")
    note = Markup("<strong> on stand-in tables, not the real ones</strong>") if standin else ""
    return Markup('<span class="profile">profile {}{}</span>').format(profile, note)


def work_part(work: str, exhibits: pd.DataFrame, found: Found) -> dict[str, Any]:
    """Each exhibit of a work that a run can make, beside what the work prints."""
    values = load_values(work, excluded=True)
    shown = exhibits[exhibits["status"] != "illustrative"]
    stated = values[~values["exhibit"].isin(exhibits["exhibit"])]
    protocol = project_root() / "data" / "published" / f"protocol_{work}.md"
    return {
        "title": CHAPTERS[CHAPTER_OF[work]],
        "protocol": link(protocol, "Protocol of the work"),
        "exhibits": [
            exhibit_part(each, shown, values, found)
            for each in shown.drop_duplicates("id").itertuples()
        ],
        "stated": printed(stated, f"Numbers in the text of {work}") if len(stated) else None,
    }


def exhibit_part(
    each: Any, shown: pd.DataFrame, values: pd.DataFrame, found: Found
) -> dict[str, Any]:
    """One exhibit: what it shows, what was made of it, what is printed, and further results."""
    name = f"{each.work}_{each.exhibit}"
    label = f"{each.kind.capitalize()} {each.number}"
    title = f"{label} of {each.work}: {each.title}"
    own = values[values["exhibit"] == each.exhibit]
    further = {
        other.removeprefix(f"{name}_").replace("_", " "): found[other]
        for other in sorted(found)
        if other.startswith(f"{name}_")
    }
    return {
        "id": each.id,
        "label": label,
        "title": each.title,
        "shows": each.what_it_shows,
        "notebooks": [stem for stem in shown.loc[shown["id"] == each.id, "notebook"] if stem],
        "results": results(found.get(name, {}), title),
        "printed": [printed(own, title)] if len(own) else [],
        "further": [
            (words.capitalize(), results(files, f"{title}, {words}"))
            for words, files in further.items()
        ],
    }


def notebook_table(notebooks: Sequence[Notebook]) -> Table:
    """The notebooks, their executed copies, and how the last run of each ended."""
    last, rows, executed = read_last(project_root()), [], project_root() / "figures" / "executed"
    for each in notebooks:
        copies = {
            name: path
            for name in reversed(PROFILES)
            if (path := executed / name / each.path.name).is_file()
        }
        best = list(copies.items())[:1]
        read = [link(readable_copy(path), f"read ({name})") for name, path in best]
        links = [*read, *(link(path, f"{name}.ipynb") for name, path in copies.items())]
        end = last.get(each.stem, {})
        rows.append(
            [
                Markup('<span id="{}">{}</span>').format(each.stem, link(each.path, each.stem)),
                each.title,
                Markup(" · ").join(links or ["none yet"]),
                " ".join(end.get(key, "") for key in ("status", "profile", "finished")),
            ]
        )
    header = ["notebook", "question", "executed", "last run here"]
    return Table("Notebooks and their executed copies", header, rows)


# --- the page ------------------------------------------------------------------------------------


def template() -> Any:
    """The template of the page, which escapes all text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.globals |= {"mark_of": mark_of, "made_from": made_from}
    return environment.from_string(beside("html"))


def beside(kind: str) -> str:
    """The text of report.html, report.css or report.js."""
    return Path(__file__).with_name(f"report.{kind}").read_text(encoding="utf-8")


def page() -> str:
    """The whole page, from what lies in data/published, notebooks and figures."""
    notebooks = read_notebooks(project_root() / "notebooks")
    found = find_results()
    exhibits = exhibit_map(notebooks)
    exhibits["id"] = exhibits["work"] + "/" + exhibits["exhibit"]
    exhibits = exhibits.merge(load_catalogue()[["id", "number", "what_it_shows"]], on="id")
    exhibits["best"] = [
        next(iter(found.get(each.replace("/", "_"), ())), "") for each in exhibits["id"]
    ]
    makeable = exhibits[exhibits["status"] != "illustrative"].drop_duplicates("id")
    findings = project_root() / "data" / "published" / "findings.md"
    return template().render(
        parts=["map", "verdict", *WORKS, "notebooks"],
        works=WORKS,
        style=Markup(beside("css")),
        script=Markup(beside("js")),
        makeable=len(makeable),
        made=int((makeable["best"] != "").sum()),
        map=map_table(exhibits),
        verdict=verdict_part(load_claims(), find_claims(), found),
        exhibits={
            work: work_part(work, exhibits[exhibits["work"] == work], found) for work in WORKS
        },
        findings=link(findings, "Findings about the works"),
        notebooks=notebook_table(notebooks),
    )


def refresh() -> str:
    """Build the page; one line that says where it is, or why the old one stays. Nothing is
    raised."""
    target = project_root() / "figures" / "report" / "index.html"
    try:
        write_atomically(target, page().encode())
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        return f"The report could not be built: {said}"
    return f"The report: {target}"
