"""The report: a small site of static pages about everything that was made.

    ./run_all.sh report          # figures/report/index.html, which shows the files in figures/
    ./run_all.sh site FOLDER     # the same with copies of these files, for a static host

What the pages show is gathered here and in `report_words`, which computes their sentences; their
form is in templates/, as Jinja templates. Pages need no network, and also work as files: the index
of the search is a script.
"""

import contextlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from PIL import Image

import fedsynth_lib
from fedsynth_lib.bundle import report_words as words
from fedsynth_lib.bundle.chapters import CHAPTER_OF, CHAPTERS, exhibit_map
from fedsynth_lib.bundle.console import read_last
from fedsynth_lib.bundle.facts import MARKER
from fedsynth_lib.bundle.findings import QUOTED, findings
from fedsynth_lib.bundle.notebooks import Notebook, read_notebooks
from fedsynth_lib.bundle.report_api import ROOMS
from fedsynth_lib.bundle.report_api import names as documented_names
from fedsynth_lib.bundle.report_files import (
    KINDS,
    Executed,
    Found,
    Table,
    find_executed,
    find_results,
    published_table,
    read_table,
)
from fedsynth_lib.bundle.report_pages import body_of, contents, relink, text_to_html
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import CODE, project_root, write_atomically
from fedsynth_lib.methods.registry import REGISTRY
from fedsynth_lib.printed.published import WORKS, load_catalogue, load_values
from fedsynth_lib.runs.names import method_name

TEMPLATES = Path(__file__).with_name("templates")
ASSETS = ("report.css", "report.js")
FOLDERS = ("tables", "works", "notebooks", "library")  # of pages
FINDINGS = "data/published/findings.md"
# pages of text -> title, file, heading of the section
TEXTS = {
    "start": ("What it is, and how to run it", "README.md", "# fedsynth\n"),
    "outcomes": ("What came out", "README.md", "## What came out\n"),
    "field": ("Beside the field", "README.md", "## Beside the field\n"),
    "judging": ("How we judge", "README.md", "## How far the works reproduce\n"),
    "privacy": ("Privacy, in short", "README.md", "## Privacy, in short\n"),
    "more": ("Commands and licence", "README.md", "## More\n"),
    "glossary": ("Glossary", "data/published/glossary.md", "## Terms\n"),
    "teaching": ("Teach with it", "data/published/teaching.md", "## Paths\n"),
}
# file and anchor of such a section -> its page
SECTIONS = {
    (name, re.sub("[# ,\n]+", "-", section).strip("-").lower()): f"{stem}.html"
    for stem, (_, name, section) in TEXTS.items()
}
THUMBNAIL = (480, 360)  # pixels, at most
ENDINGS = {"_claims": "its claims", "_verdicts": "counts of its values"}
# the benchmarks of the first page: table -> score in it, what it is, and the number of clients
BENCHMARKS = {
    "73_nist_1": ("NIST national 2019, 20 clients, epsilon 1", ["k-marginal score"], 20),
    "73_adult_1": (
        "Adult as HeteroFedSyn measures it, 5 clients, epsilon 1",
        ["error of two-way range queries", "AUC, boosted trees"],
        5,
    ),
}
TITLES = {work: CHAPTERS[CHAPTER_OF[work]].partition(": ")[2] for work in WORKS}
NAMES = {work: f"{title[0].upper()}{title[1:]}" for work, title in TITLES.items()}
# what the search finds a work by as well: its method
METHODS = {"leitner2023": "DP-Fed-CTGAN", "sattarov2024": "DP-Fed-FinDiff"}


class Result(NamedTuple):
    """A figure and table of one profile, and links to the files: (kind, address)."""

    folder: str
    alt: str
    picture: tuple[str, int, int] | None  # address, width, height
    table: Table | None
    files: Sequence[tuple[str, str]]


class Site:
    """The pages while they are made; nothing of them is written before all are.

    folder: of the site. portable: copy every file that a page links, instead of linking it where it
    is.
    """

    def __init__(self, folder: Path, *, portable: bool = False) -> None:
        self.folder, self.portable = folder, portable
        self.pages: dict[str, str] = {}
        self.entries: list[tuple[str, str, str, str]] = []  # of the search
        self.targets: dict[str, str] = {}  # name of a result, stem of a notebook -> its page
        self.environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.globals |= {"works": NAMES, "about": about(), "texts": TEXTS}
        self.environment.globals |= {"badges": words.BADGES, "agreement": words.AGREEMENT}
        self.environment.globals |= {"words": words}
        self.environment.globals |= {"page_of": self.targets.get, "plural": words.plural}
        self.environment.filters["code"] = code_marked
        self.environment.globals["m"] = self.environment.get_template("macros.html").module

    def file(self, path: Path) -> str:
        """Return the address of a file, from the root of the site."""
        if self.portable:
            copy = self.folder / "files" / path.relative_to(project_root())
            if not same_time(copy, path):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
            path = copy
        return quote(Path(os.path.relpath(path, self.folder)).as_posix())

    def thumbnail(self, path: Path) -> str:
        """Return the address of a small copy of a picture."""
        name = f"{path.parent.name}_{path.stem}.webp"
        small = self.folder / "thumbnails" / name
        if not same_time(small, path):
            small.parent.mkdir(parents=True, exist_ok=True)
            with Image.open(path) as opened:
                picture = opened.convert("RGB")
            picture.thumbnail(THUMBNAIL)
            picture.save(small)
            os.utime(small, ns=(path.stat().st_mtime_ns,) * 2)
        return f"thumbnails/{quote(name)}"

    def add(self, address: str, template: str, title: str, **context: Any) -> None:
        """Make a page. The search finds its `parts`: (title, kind, anchor, text)."""
        root = "../" * address.count("/")
        for part, kind, anchor, text in context.pop("parts", ()):
            plain = " ".join(re.sub("<[^>]+>", " ", text).split())
            self.entries.append((part, kind, address + anchor, plain))
        page = self.environment.get_template(template)
        self.pages[address] = page.render(root=root, title=title, address=address, **context)

    def links(self, folder: Path, root: str, address: str) -> str | None:
        """Where a link of a text in `folder` leads from a page whose root is `root`."""
        name, mark, anchor = address.partition("#")
        path = Path(os.path.normpath(folder / unquote(name)))
        if path.name == "findings.md":
            return f"{root}works/{anchor}.html" if anchor in WORKS else f"{root}methods.html"
        section = Path(os.path.relpath(path, project_root())).as_posix(), anchor
        if page := SECTIONS.get(section) or self.targets.get(path.stem):
            return f"{root}{page}"
        return f"{root}{self.file(path)}{mark}{anchor}" if path.is_file() else None

    def write(self) -> Path:
        """Write all pages and what they need; return the first page.

        Pages of an earlier site are deleted.
        """
        for name in ASSETS:
            write_atomically(self.folder / "assets" / name, (TEMPLATES / name).read_bytes())
        script = (
            f"SEARCH = {json.dumps(self.entries, ensure_ascii=False, separators=(',', ':'))};\n"
        )
        write_atomically(self.folder / "assets" / "search.js", script.encode())
        for address, text in self.pages.items():
            write_atomically(self.folder / address, text.encode())
        for name in FOLDERS:
            for path in (self.folder / name).glob("*.html"):
                if f"{name}/{path.name}" not in self.pages:
                    path.unlink()
        return self.folder / "index.html"


def same_time(copy: Path, source: Path) -> bool:
    """Whether a copy was made of the source as it is."""
    return copy.is_file() and copy.stat().st_mtime_ns == source.stat().st_mtime_ns


def about() -> dict[str, Any]:
    """Version, date, commit where there is one, and how to cite."""
    command, commit = ["git", "-C", str(CODE), "log", "-1", "--format=%h"], ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if (CODE / ".git").exists():
            told = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=10)
            commit = told.stdout.strip()
    path = CODE / "CITATION.cff"
    cited = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {
        **{"version": fedsynth_lib.__version__, "commit": commit},
        **{"date": date.today().isoformat(), "cite": cited},
    }


# --- results --------------------------------------------------------------------------------------


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of a picture at 110 pixels an inch (figures/style.py saves 300)."""
    head = path.read_bytes()[:24]
    if len(head) < 24 or not head.startswith(b"\x89PNG"):
        raise BadInput(f"{path} is not a PNG picture: run its notebook again.")
    width, height = (max(1, round(side * 110 / 300)) for side in struct.unpack(">II", head[16:]))
    return width, height


def results(
    site: Site, files: Mapping[str, Mapping[str, Path]], title: str, executed: Executed
) -> list[Result]:
    """Return a result in every profile that has it, the best first."""
    return [
        Result(
            folder,
            executed.alt.get(own.get(".png"), f"{title}, profile {folder}"),
            (site.file(own[".png"]), *picture_size(own[".png"])) if ".png" in own else None,
            read_table(own, title) if ".csv" in own else None,
            [(KINDS[kind], site.file(path)) for kind, path in own.items()],
        )
        for folder, own in files.items()
    ]


def best_picture(files: Mapping[str, Mapping[str, Path]]) -> Path | None:
    """Return the picture of the best profile that has one."""
    return next((own[".png"] for own in files.values() if ".png" in own), None)


# --- the pages ------------------------------------------------------------------------------------


class Material(NamedTuple):
    """What the pages are made of."""

    notebooks: list[Notebook]
    exhibits: pd.DataFrame  # one line for each notebook of a table or figure
    found: Found
    executed: Executed
    verdict: words.Verdict
    findings: pd.DataFrame

    @classmethod
    def gather(cls) -> "Material":
        """Gather all that the pages show."""
        notebooks = read_notebooks(project_root() / "notebooks")
        exhibits = exhibit_map(notebooks).assign(
            id=lambda table: table["work"] + "/" + table["exhibit"]
        )
        shows = load_catalogue()[["id", "number", "what_it_shows", "research_question"]]
        return cls(
            notebooks,
            exhibits.merge(shows, on="id"),
            find_results(),
            find_executed(),
            words.Verdict.read(),
            findings(quoted=True),
        )

    def makeable(self) -> pd.DataFrame:
        """One line for each table and figure that a run can make."""
        return self.exhibits[self.exhibits["status"] != "illustrative"].drop_duplicates("id")

    def loose(self, site: Site) -> list[str]:
        """Return the results that belong to no table or figure of a work."""
        numbered = set(self.exhibits["work"] + "_" + self.exhibits["exhibit"])
        return [each for each in self.found if not {each, place_of(site, each)} & numbered]

    def maker(self, name: str) -> str:
        """Return the notebook that made a result; empty where it is unknown."""
        number = name.partition("_")[0]
        by_number = (each.stem for each in self.notebooks if each.stem.startswith(f"{number}_"))
        return self.executed.made_by.get(name) or next(by_number, "")


def place_of(site: Site, name: str) -> str:
    """Return the table or figure whose page shows a result."""
    return site.targets[name].partition("/")[2].partition(".html")[0]


def build(folder: Path | None = None, *, portable: bool = False) -> Path:
    """Make the whole site, from data/, notebooks/ and figures/; the file of its first page."""
    site = Site(folder or project_root() / "figures" / "report", portable=portable)
    material = Material.gather()
    rows = material.makeable()
    parts = {f"{each.work}_{each.exhibit}": each for each in rows.itertuples()}
    further: dict[str, list[str]] = {name: [] for name in parts}
    for name in sorted(material.found):
        owner = next((own for own in parts if name.startswith(f"{own}_")), None)
        site.targets[name] = f"tables/{owner or name}.html"
        if owner and name not in parts:
            further[owner].append(name)
            site.targets[name] += f"#{name}"
    site.targets |= {name: f"tables/{name}.html" for name in parts}
    site.targets |= {stem: f"notebooks/{stem}.html" for stem in material.executed.copies}
    for name, each in parts.items():
        exhibit_page(site, material, each, further[name])
    for name in material.loose(site):
        result_page(site, material, name)
    for work in WORKS:
        work_page(site, material, work)
    for stem, copies in material.executed.copies.items():
        notebook_page(site, material, stem, next(iter(copies.values())))
    list_pages(site, material)
    text_pages(site)
    library_pages(site)
    first_page(site, material)
    return site.write()


def exhibit_page(site: Site, material: Material, each: Any, further: Sequence[str]) -> None:
    """Make the page of a table or figure of a work.

    The page has the verdict, picture, table, reasons, claims, files and command.
    """
    name, label = f"{each.work}_{each.exhibit}", f"{each.kind.capitalize()} {each.number}"
    title = f"{label} of {each.work}: {each.title}"
    own = material.verdict.of(each.work).at(each.exhibit)
    shown = results(site, material.found.get(name, {}), title, material.executed)
    same = material.exhibits["id"] == each.id
    stems = [stem for stem in material.exhibits.loc[same, "notebook"] if stem]
    others = [
        other
        for other in material.loose(site)
        if best_picture(material.found[other]) and material.maker(other) in stems
    ]
    lone = len(others) == 1 and not any(one.picture for one in shown)
    file = project_root() / "data" / "published" / "values" / each.work / f"{each.exhibit}.csv"
    values = load_values(each.work, each.exhibit, excluded=True) if file.is_file() else None
    beside = results(site, material.found[others[0]], title, material.executed) if lone else []
    more = [
        (
            other,
            further_title(name, other),
            results(site, material.found[other], title, material.executed),
        )
        for other in further
    ]
    table = next((one.table for one in shown if one.table), None)
    caption = table.caption if table else ""
    others_of_it = [
        *beside,
        *(each[0] for _, _, each in more),
    ]  # a figure has no caption of its own
    captions = [caption] if caption else [each.table.caption for each in others_of_it if each.table]
    command = next(iter(own.cells["command"]), "") or command_of(stems)
    methods = " ".join(dict.fromkeys(own.cells["method"]))
    site.add(
        f"tables/{name}.html",
        "exhibit.html",
        title,
        each=each,
        label=label,
        verdict=words.exhibit_sentence(own),
        own_reading=words.own_reading(own, table),
        state=next(iter(own.exhibits["state"]), ""),
        shares=words.value_shares(own.cells),
        results=shown,
        beside=beside,
        belief=words.belief(own, captions),
        causes=words.causes(own.cells),
        claims=own.claims,
        published=published_table(values, title) if values is not None else None,
        published_file=site.file(file) if values is not None else "",
        stems=stems,
        command=command,
        show=command_of(stems),
        gallery=cards(site, material, [] if lone else others),
        further=more,
        parts=[
            (
                title,
                each.kind,
                "",
                f"{named(each.work)}: {each.what_it_shows} {each.research_question} {methods} "
                f"{caption}",
            )
        ],
    )


def named(work: str) -> str:
    """Return the names that the search finds a work by, besides its key."""
    return " ".join([NAMES[work], METHODS.get(work, "")]).strip()


def command_of(stems: Sequence[str]) -> str:
    """Return the command that runs these notebooks; empty without any."""
    return f"./run_all.sh --only {','.join(stem[:2] for stem in stems)}" if stems else ""


def further_title(name: str, other: str) -> str:
    """Return the title of a further result of a table or figure."""
    ending = other.removeprefix(name)
    return ENDINGS.get(ending, ending.replace("_", " ").strip()).capitalize()


def cards(site: Site, material: Material, names: Sequence[str]) -> list[dict[str, Any]]:
    """Thumbnails of results: name, title, picture, alt."""
    paths = {name: best_picture(material.found[name]) for name in names}
    return [
        {"name": name, "title": name.partition("_")[2].replace("_", " ")}
        | {"picture": site.thumbnail(path), "alt": material.executed.alt.get(path, name)}
        for name, path in paths.items()
    ]


def result_page(site: Site, material: Material, name: str) -> None:
    """Make the page of a table or figure of ours that no work has under a number."""
    shown = results(site, material.found[name], name, material.executed)
    table, stem = shown[0].table or Table("", [], []), material.maker(name)
    title = re.split(r"[:;.](?= )", table.caption)[0] or name.replace("_", " ")
    found = [name, table.caption or shown[0].alt, *table.header, *(row[0] for row in table.rows)]
    site.add(
        f"tables/{name}.html",
        "result.html",
        title,
        name=name,
        results=shown,
        stem=stem,
        show=command_of([stem] if stem else []),
        parts=[(title, "result", "", " ".join(found))],
    )


def work_page(site: Site, material: Material, work: str) -> None:
    """Make the page of a work.

    The page has a sentence, and the work's tables and figures, claims, findings and differences.
    """
    own, name = material.verdict.of(work), f"90_against_published_{work}"
    notes = article(site, FINDINGS, "../", f"## {work}\n")
    values = load_values(work, excluded=True)
    stated = values[~values["exhibit"].isin(material.exhibits["exhibit"])]
    protocol = project_root() / "data" / "published" / f"protocol_{work}.md"
    parts = [(f"{work}: {named(work)}", "work", "", words.work_sentence(own))]
    parts += [
        (
            claim.claim,
            "claim",
            f"#{claim.id.partition('/')[2]}",
            f"{named(work)} {work} {claim.outcome} {claim.place}",
        )
        for claim in own.claims.itertuples()
    ]
    site.add(
        f"works/{work}.html",
        "work.html",
        f"{NAMES[work]} ({work})",
        work=work,
        sentence=words.work_sentence(own),
        claims=own.claims,
        notes=notes,
        drawn=words.values_drawn(own),
        against=results(site, material.found.get(name, {}), name, material.executed)[:1],
        exhibits=gallery(site, material, work),
        protocol=site.file(protocol) if protocol.is_file() else "",
        stated=published_table(stated, f"Numbers in the text of {work}") if len(stated) else None,
        parts=[*parts, *finding_parts(material, work, notes)],
    )


def article(site: Site, name: str, root: str, section: str) -> Markup:
    """Return a section of a Markdown file of the project as HTML.

    Its headings are one level higher.
    """
    path = next(base / name for base in (project_root(), CODE) if (base / name).is_file())
    text = path.read_text(encoding="utf-8").partition(section)[2].partition("\n## ")[0]
    text = MARKER.sub(lambda marker: marker["said"], text)
    html = text_to_html(re.sub(r"(?m)^#(#+ )", r"\1", text))
    folder = project_root() / Path(name).parent

    def picture(found: re.Match[str]) -> str:
        file = folder / found[1]
        return f'src="{root}{site.file(file)}"' if file.is_file() else 'hidden src="data:,"'

    html = re.sub(r'src="([^":]+)"', picture, html)
    return Markup(relink(html, partial(site.links, folder, root)))


def finding_parts(material: Material, work: str, notes: str) -> list[tuple[str, str, str, str]]:
    """Return what the search finds of the findings of a work, with the anchor of each."""
    anchors = {plain(heading.text): f"#{heading.id}" for heading in contents(notes)}
    own = material.findings[material.findings["work"] == work]
    return [
        (each.headline, "finding", anchors.get(plain(each.headline), ""), each.text)
        for each in own.itertuples()
    ]


def plain(text: str) -> str:
    """Return the letters and digits of a text alone, to compare headings."""
    return re.sub(r"\W|&\w+;", "", text)


def gallery(site: Site, material: Material, work: str) -> list[dict[str, Any]]:
    """Return the cards of a work's tables and figures."""
    rows, own = material.makeable(), material.verdict.of(work)
    states = own.exhibits.set_index("exhibit")["state"]
    made = rows[rows["work"] == work].assign(name=lambda table: f"{work}_" + table["exhibit"])
    pictures = made["name"].map(lambda name: best_picture(material.found.get(name, {})))
    return made.assign(
        label=made["kind"].str.capitalize() + " " + made["number"].astype(str),
        state=made["exhibit"].map(states).fillna(""),
        picture=pictures.map(lambda path: site.thumbnail(path) if path else ""),
        shares=made["exhibit"].map(lambda name: words.value_shares(own.at(name).cells)),
    ).to_dict("records")


def notebook_page(site: Site, material: Material, stem: str, source: Path) -> None:
    """Make a page of the executed notebook."""
    try:
        body = notebook_body(source, site.folder)
    except Exception as error:  # half written by another run
        site.targets.pop(stem)
        said = f"{source} cannot be shown as a page ({type(error).__name__})."
        print(f"run_all.sh: {said}", file=sys.stderr)
        return
    body = relink(body, partial(site.links, project_root() / "notebooks", "../"))
    title = next((each.title for each in material.notebooks if each.stem == stem), stem)
    site.add(
        f"notebooks/{stem}.html",
        "notebook.html",
        title,
        **{"stem": stem, "body": Markup(body), "contents": contents(body)},
        **{"file": site.file(source), "profile": source.parent.name},
        parts=[(f"{stem[:2]} {title}", "notebook", "", notebook_text(body))],
    )


def notebook_body(source: Path, folder: Path) -> str:
    """Convert an executed notebook to HTML by nbconvert.

    The HTML is kept as long as the notebook is the same. Pictures become files of the site in
    `folder`.
    """
    kept = folder / ".bodies" / source.stem
    digest = sha256(source.read_bytes() + Path(__file__).with_name("report_pages.py").read_bytes())
    if kept.is_file():
        first, _, body = kept.read_text(encoding="utf-8").partition("\n")
        if first == digest.hexdigest():
            return body

    def moved(found: re.Match[str]) -> str:
        content = b64decode(found[2])
        name = f"pictures/{sha256(content).hexdigest()[:20]}.{found[1]}"
        write_atomically(folder / name, content)
        return f'src="../{name}"'

    body = re.sub(r'src="data:image/(png|jpeg);base64,([^"]+)"', moved, body_of(source))
    body = body.replace(f"{project_root()}/", "")
    write_atomically(kept, f"{digest.hexdigest()}\n{body}".encode())
    return body


def notebook_text(body: str) -> str:
    """Return what the search finds of a notebook.

    The text has its headings, and the words of its prose, each once.
    """
    prose = " ".join(re.findall(r"(?s)<(?:p|li|td)>(.*?)</(?:p|li|td)>", body))
    names = re.findall(r"[A-Za-z][\w-]{3,}", unescape(re.sub("<[^>]+>", " ", prose)))
    return " ".join([*(each.text for each in contents(body)), *dict.fromkeys(names)])


def list_pages(site: Site, material: Material) -> None:
    """Make the lists: methods, notebooks, and tables and figures that no work has."""
    last = read_last(project_root())
    notes = article(site, FINDINGS, "", "## all methods\n")
    parts = [
        (
            method_name(key),
            "method",
            f"#{key}",
            " ".join([entry.family, entry.cites, entry.trust, *entry.printed.values()]),
        )
        for key, entry in REGISTRY.items()
    ]
    site.add(
        "methods.html",
        "methods.html",
        "Methods",
        methods=REGISTRY,
        notes=notes,
        parts=[*parts, *finding_parts(material, "all methods", notes)],
    )
    site.add(
        "notebooks.html",
        "notebooks.html",
        "Notebooks",
        notebooks=[
            (each, site.file(each.path), last.get(each.stem, {})) for each in material.notebooks
        ],
        chapters=CHAPTERS,
        failed=unfinished(last),
        lite=(site.folder / "lite" / "lab" / "index.html").is_file(),  # by .ci/lite
    )
    site.add(
        "tables.html",
        "tables.html",
        "All tables and figures",
        exhibits=material.exhibits,
        states=material.verdict.exhibits.set_index(["work", "exhibit"])["state"].to_dict(),
        others=[(name, material.maker(name)) for name in sorted(material.loose(site))],
    )


def text_pages(site: Site) -> None:
    """Pages of text, from Markdown; the search finds each term of the glossary."""
    for stem, (title, name, section) in TEXTS.items():
        notes = article(site, name, "", section)
        terms = re.split(r"<h2 ", notes)[1:] if stem == "glossary" else []
        parts = [(title, "page", "", notes if not terms else "")]
        parts += [
            (each.text, "term", f"#{each.id}", term.partition("</h2>")[2])
            for each, term in zip(contents(notes) if terms else (), terms, strict=True)
        ]
        site.add(f"{stem}.html", "text.html", title, notes=notes, parts=parts)


def library_pages(site: Site) -> None:
    """Make a page for each room with its public names, and the list of all."""
    rooms = {f"library/{room.lower().replace(' ', '_')}.html": room for room in ROOMS}
    found = {address: documented_names(room) for address, room in rooms.items()}
    for address, room in rooms.items():
        parts = [
            (each["name"], "library", f"#{each['name']}", each["summary"])
            for each in found[address]
        ]
        site.add(address, "room.html", room, names=found[address], parts=parts)
    parts = [("Library", "page", "", "how to install it: pip install")]
    site.add("library.html", "library.html", "Library", rooms=rooms, found=found, parts=parts)


def code_marked(text: str) -> Markup:
    """Return a text in which what is between backticks is code."""
    return Markup(re.sub("(``?)([^`]+)\\1", r"<code>\2</code>", str(escape(text))))


def unfinished(last: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the notebooks whose last run failed or was stopped."""
    return [
        stem for stem, end in sorted(last.items()) if end.get("status") in ("failed", "stopped")
    ]


def first_page(site: Site, material: Material) -> None:
    """Make the first page: three answers, and where to read on."""
    releases = words.unprotected()
    benchmarks = {
        name: pd.read_csv(files[".csv"])
        for name in ("73_nist_1", "73_nist_10", "73_adult_1")
        for files in list(material.found.get(name, {}).values())[:1]
        if ".csv" in files
    }
    quoted = material.findings[material.findings[QUOTED].str.startswith("What we found")]
    bounds = material.found.get("04_bounds", {})
    methods = " ".join(sorted({name for own in benchmarks.values() for name in own["method"]}))
    cited = site.environment.globals["about"]["cite"].get("message", "")
    site.add(
        "index.html",
        "index.html",
        "fedsynth: the report",
        verdict=material.verdict,
        own={work: material.verdict.of(work) for work in WORKS},
        ties={
            name: words.tied(benchmarks[name], "k-marginal score")
            for name in ("73_nist_1", "73_nist_10")
            if name in benchmarks
        },
        leaders={
            name: words.leaders(benchmarks[name], "k-marginal score")
            for name in ("73_nist_1", "73_nist_10")
            if name in benchmarks
        },
        benchmarks=[
            (name, title, scores, benchmark_rows(benchmarks[name], scores, clients))
            for name, (title, scores, clients) in BENCHMARKS.items()
            if name in benchmarks
        ],
        found=[
            (each, quoted_picture(site, material, each), anchor_of(site, each["headline"]))
            for each in quoted.to_dict("records")
        ],
        leaks=[
            (
                each,
                anchor_of(site, each["headline"]),
                [line for line in releases if line["work"] == each["work"]],
            )
            for each in material.findings[material.findings[QUOTED] == "Is it private?"].to_dict(
                "records"
            )
        ],
        leaking=words.not_private(releases),
        bounds=results(site, bounds, "Lower bounds on epsilon", material.executed)[:1],
        galleries={work: gallery(site, material, work) for work in WORKS},
        parts=[
            ("Did it reproduce?", "page", "#works", " ".join(NAMES.values())),
            ("Which method?", "page", "#methods", f"NIST Adult beside the field {methods}"),
            ("Is it private?", "page", "#privacy", "epsilon guarantee without noise bounds audit"),
            ("Licence and how to cite", "page", "#cite", f"MIT license. {cited}"),
        ],
        failed=unfinished(read_last(project_root())),
    )


def benchmark_rows(
    table: pd.DataFrame, scores: Sequence[str], clients: int
) -> dict[str, list[list[str]]]:
    """Return lines by group, ours first: method, epsilon, trust model, scores.

    Groups are not ranked together; in a group the best by the first score is first. What was made
    at another epsilon than 1, which the tables are of, is in groups of its own, at the end.
    """
    texts = {score: words.scores(table, score) for score in scores}
    kept = table["clients"].isin((1, clients)) & (pd.DataFrame(texts) != "").any(axis=1)
    other = table["ε"].notna() & (table["ε"] != 1)
    lines = table.assign(
        **texts,
        ε=table["ε"].map("{:g}".format, na_action="ignore").fillna(""),
        group=table["group"].mask(other, table["group"] + ", at another epsilon"),
        last=other,
        theirs=~table["group"].str.startswith("ours"),
        place=pd.factorize(table["group"])[0],
        cost=table[f"{scores[0]} mean"] * (1 if "error" in scores[0] else -1),
    )
    kept = lines[kept].sort_values(["last", "theirs", "place", "cost"], kind="stable")
    return {
        group: own[["method", "ε", "trusted", *scores]].fillna("").to_numpy().tolist()
        for group, own in kept.groupby("group", sort=False)
    }


def quoted_picture(
    site: Site, material: Material, each: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the picture that a finding names for the first page."""
    name = re.search(r"picture (\S+)", each[QUOTED])
    known = name and best_picture(material.found.get(name[1], {}))
    return cards(site, material, [name[1]])[0] if known else None


def anchor_of(site: Site, headline: str) -> str:
    """Return the address of a finding."""
    return next(
        address
        for title, kind, address, _ in site.entries
        if (title, kind) == (headline, "finding")
    )


def refresh(folder: Path | None = None, *, portable: bool = False) -> bool:
    """Build the site, and print where it is, or why the old one stays.

    Returns whether it was built; nothing is raised.
    """
    try:
        print(f"The report: {build(folder, portable=portable)}", flush=True)
        return True
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        print(f"The report could not be built: {said}", flush=True)
        return False
