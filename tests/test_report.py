"""The report, built from small trees: what it shows, what it links, what it survives."""

import inspect
import json
import os
import re
import shutil
import tomllib
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import nbformat
import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from matplotlib import image
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from tiny import write

from fedsynth_lib.bundle import report, report_api, report_words, runner
from fedsynth_lib.bundle.report_files import NUMBER
from fedsynth_lib.bundle.report_pages import Pages, body_of, contents
from fedsynth_lib.figures.save import save_table
from fedsynth_lib.printed import outcomes
from fedsynth_lib.printed.published import WORKS, load_catalogue, load_claims

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "fedsynth_lib" / "bundle" / "templates"
NASTY = "<script>alert(1)</script> & \"quotes\" 'too' a < b"
VERDICT = ("cells.csv", "claims.csv", "exhibits.csv")


class Page(HTMLParser):
    """The elements of a page in order; refuses one that is not closed where it should be."""

    def __init__(self, path: Path):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)
        assert not self.open, path

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "input", "br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


def furnish(home: Path) -> Path:
    """A project with the published values, the verdict, two notebooks, and nothing made."""
    (home / "data" / "results").mkdir(parents=True)
    (home / "data" / "published").symlink_to(ROOT / "data" / "published")
    for name in VERDICT:
        (home / "data" / "results" / name).symlink_to(ROOT / "data" / "results" / name)
    write(home, "42_tables", "x = 1", exhibits=["maddock2024/tab1", "maddock2024/fig3"])
    write(home, "01_data", "x = 1", exhibits=["martinez2024/tab5.1", "maddock2024/tab1"])
    return home


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    return furnish(tmp_path)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """The site over the committed results of this repository."""
    home = tmp_path_factory.mktemp("ours")
    (home / "figures").mkdir()
    for path in [
        ROOT / "notebooks",
        ROOT / "data" / "published",
        *(ROOT / "data" / "results" / name for name in VERDICT),
        ROOT / "data" / "results" / "paper",
        *(ROOT / "figures").glob("*.*"),
    ]:
        link = home / path.relative_to(ROOT)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSYNTH_HOME", str(home))
        yield report.build().parent


def draw(home: Path, name: str) -> Path:
    path = home / "figures" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    image.imsave(path, [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    return path


def build(home: Path) -> Path:
    assert report.refresh()
    return home / "figures" / "report"


def read(site: Path, address: str) -> str:
    return (site / address).read_text(encoding="utf-8")


def between(text: str, start: str, end: str) -> str:
    return text[text.index(start) :].partition(end)[0]


def entries(site: Path) -> list[list[str]]:
    """The index of the search: title, kind, address, text."""
    script = read(site, "assets/search.js")
    return json.loads(script.removeprefix("SEARCH = ").rstrip().removesuffix(";"))


def hits(site: Path, words: str) -> list[list[str]]:
    """What the script's search finds."""
    return [
        entry
        for entry in entries(site)
        if all(word in " ".join(entry).lower() for word in words.lower().split())
    ]


# --- the site of this repository -----------------------------------------------------------------


@pytest.mark.slow
def test_the_first_page_is_small_and_answers_three_questions(ours):
    path = ours / "index.html"
    assert path.stat().st_size <= 150_000
    assert max(each.stat().st_size for each in (ours / "thumbnails").iterdir()) < 50_000
    answers = between(path.read_text(encoding="utf-8"), '<ul class="answers">', "</ul>")
    verdicts = pd.read_csv(ROOT / "data/results/claims.csv").set_index("id")["verdict"]
    told = load_claims()["id"].map(verdicts)
    counts = [
        told.isin(names).sum()
        for names in (["holds"], ["partly", "not in full"], ["does not hold"], ["undecided"])
    ]
    counts.append(len(told) - sum(counts))
    assert f"<b>{counts[0]} of {len(told)} claims hold, {counts[1]} do not" in answers
    bar = between(answers, 'class="bar"', "</span>")
    assert list(map(int, re.findall(r"\d+", between(bar, 'aria-label="', '">')))) == counts
    assert list(map(int, re.findall(r"flex:(\d+)", bar))) == counts
    for text, count in zip(["do not hold;", "are undecided;", "were not"], counts[2:], strict=True):
        assert f"{count} {text}" in answers
    nist = pd.read_csv(ROOT / "figures/73_nist_1.csv")
    best = nist[nist["group"] == "ours, federated"].iloc[0]  # saved best first
    assert f"<b>{best['method']} at epsilon 1</b>" in answers
    score = [f"{best[f'k-marginal score {name}']:.1f}" for name in ("mean", "half")]
    assert " ± ".join(score) in answers and best["trusted"] in answers
    assert "Is it private?" in answers and "3 of 5 works" in answers
    assert (
        "At epsilon 10 FedPGM and DistAIM are equal within noise (991.4 ± 0.3 and 991.2" in answers
    )
    benchmarks = between(path.read_text(encoding="utf-8"), '<h2 id="methods">', "</section>")
    assert "Tumult" in between(benchmarks, "published elsewhere, at another epsilon", "</table>")
    assert "Tumult" not in between(benchmarks, ">published elsewhere<", "</tbody>")
    for name in ("works", "found", "methods", "privacy", "find", "cite"):
        assert f'<h2 id="{name}">' in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_a_place_in_it(ours):
    pages = {path: Page(path) for path in ours.rglob("*.html")}
    assert len(pages) > 250
    for path, page in pages.items():
        assert max(Counter(page.ids).values()) == 1, path
        assert not any("%" in each for each in page.ids), path  # the script decodes an anchor
        for target in (
            each[name] for _, each in page.elements for name in ("href", "src") if name in each
        ):
            if target == "data:,":
                continue
            assert not re.match(r"[a-z]+:|/", target), (path, target)
            name, _, anchor = target.partition("#")
            file = Path(os.path.normpath(path.parent / unquote(name))) if name else path
            assert file.is_file(), (path, target)
            if anchor:
                assert {anchor, unquote(anchor)} & set(pages[file].ids), (path, target)
    for name in ("report.css", "report.js"):
        assert not re.search(r"@import|url\(|https?:", read(ours, f"assets/{name}"))


@pytest.mark.slow
def test_every_table_and_figure_has_a_page_with_a_verdict_and_a_command(ours):
    catalogue = load_catalogue()
    states = pd.read_csv(ROOT / "data/results/exhibits.csv").set_index(["work", "exhibit"])["state"]
    first = read(ours, "index.html")
    for name in catalogue.loc[catalogue["regenerable"] == "yes", "id"]:
        page = Page(ours / "tables" / f"{name.replace('/', '_')}.html")
        badge = {"in full": "complete", "in part": "part"}.get(
            states[tuple(name.split("/"))], "small scale"
        )
        verdict = between(page.text, '<p class="verdict">', "</p>")
        assert f">{badge}</span>" in verdict and len(re.sub("<[^>]+>", "", verdict)) > 40
        assert "<code>./run_all.sh --only " in page.text and "belief" in page.ids
        assert f'href="tables/{name.replace("/", "_")}.html"' in first
    assert {path.stem for path in (ours / "works").iterdir()} == set(WORKS)
    listed = read(ours, "tables.html")
    assert all(f"<td>{escape(title)}</td>" in listed for title in catalogue["title"])


@pytest.mark.slow
def test_a_page_shows_picture_table_reasons_and_claims(ours):
    page = Page(ours / "tables" / "maddock2024_tab2.html")
    cells = pd.read_csv(ROOT / "data/results/cells.csv")
    own = cells[(cells["work"] == "maddock2024") & (cells["exhibit"] == "tab2")]
    judged = own[own["verdict"].isin(["within", "ordering", "different", "unstable"])]
    within = judged["verdict"].eq("within").sum()
    assert f"{within} of {len(judged)} values agree with the published ones" in page.text
    # the picture of the notebook that makes this table alone
    assert "45_errors.png" in between(page.text, "<h1>", '<h2 id="belief">')
    assert "workload error (L1, 0 to 2) ↓" in page.text  # unit and arrow
    remark = "Part of the published rows, so that noise weighs more: covertype 43 %."
    assert f"<dt>Noise</dt><dd>{remark}</dd>" in page.text
    assert "own reading" not in page.text  # it is the one that is counted
    number = (
        own["by_chance"].notna() & own["verdict"].isin(["within", "ordering", "different"])
    ).sum()
    assert f"<dt>By chance</dt><dd>Of {number} values that can be shuffled" in page.text
    assert {"claims", "published", "belief", "causes"} <= set(page.ids)
    assert "maddock2024.html#c16" in page.text


@pytest.mark.slow
def test_a_page_says_where_its_table_shows_another_reading_than_is_counted(ours):
    marks = pd.read_csv(ROOT / "figures/martinez2024_tab6.6.csv").filter(like=" verdict")
    shown = (marks == "within").to_numpy().sum()
    page = read(ours, "tables/martinez2024_tab6.6.html")
    assert "82 of 108 values agree" in between(page, '<p class="verdict">', "</p>")
    words = f"which the table below shows, {shown} of {marks.count().sum()} values agree within"
    assert words in page and "(distances, coding of columns: [0, 1] and label codes)" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sattarov2024_fig5", "100 to 137 % of the published one. 30 of 3,000 rounds at"),
        ("sattarov2024_fig7", "30 of 3,000 rounds at the published"),
        ("maddock2024_fig2", "noise weighs more: covertype 43 %"),
        ("martinez2024_tab6.6", "not compared with the work's"),
        ("martinez2024_tab6.8", "96 to 100 %"),
    ],
)
def test_a_page_says_of_noise_what_its_captions_and_missing_parts_say(ours, name, said):
    noise = between(read(ours, f"tables/{name}.html"), "<dt>Noise</dt>", "</dd>")
    assert said in noise and "without a mark" not in noise


@pytest.mark.slow
def test_the_page_of_a_work_says_what_the_picture_and_the_sentence_count(ours):
    page = read(ours, "works/maddock2024.html")
    assert "34 of 88 judged values agree within error (15 would by chance)" in page
    assert "The picture has all 141 published numbers of the work: 39 within error" in page
    assert "counts 88 of the 112 that are judged" in page


@pytest.mark.slow
def test_evidence_of_a_claim_is_there_once_and_long_evidence_is_folded(ours):
    claims = report_words.Verdict.read().claims
    failing = claims[claims["fails"] != ""].drop_duplicates("fails")
    for claim in failing.itertuples():
        page = read(ours, f"works/{claim.work}.html")
        row = between(page, f'id="{claim.id.partition("/")[2]}"', "</tr>")
        assert row.count(str(escape(claim.fails))) == 1, claim.id
        assert len(claim.fails) < 200 or "<summary>what fails</summary>" in row


@pytest.mark.slow
def test_numbers_are_on_the_right_and_texts_on_the_left(ours):
    for number in ("0.61 ± 0.04 (0.62) =", "-3.1e-5", "22 of 36", "1,234", "–", "∞", "12 %", "5 s"):
        assert NUMBER.fullmatch(number), number
    for text in ("adult", "k-NN", "tab5.5", "AIM", "2 clients more"):
        assert not NUMBER.fullmatch(text), text
    table = between(read(ours, "tables/maddock2024_tab2.html"), "<thead>", "</table>")
    assert re.search(r'<td class="within number">0.44\xa0±\xa00.02 \(0.43\)\xa0=</td>', table)
    assert '<td class="ordering number">' in table and "<td>AugFLAIM (Private)</td>" in table
    css = read(ours, "assets/report.css")
    assert "td.number { text-align: right; }" in css
    assert "position: sticky; left: 0" in between(css, "tbody th {", "}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("epsilon", "finding"),
        ("FedPGM", "method"),
        ("FedPGM", "result"),
        ("epsilon", "term"),
        ("federated", "library"),
        ("beside the field", "page"),
        ("private proxy of skew", "finding"),
        ("NaiveFLAIM is the worst method", "claim"),
        ("table 2 maddock2024", "table"),
        ("FLAIM table 2", "table"),
        ("DP-Fed-FinDiff figure 5", "figure"),
        ("hospital", "page"),
        ("licence", "page"),
        ("cite", "page"),
        ("install", "page"),
        ("DistAIM overhead", "table"),
        ("parameter study adult", "figure"),
    ],
)
def test_the_search_finds_methods_tables_claims_and_findings(ours, words, kind):
    found = [entry for entry in hits(ours, words) if entry[1] == kind]
    assert found
    for _, _, address, _ in found:
        name, _, anchor = address.partition("#")
        assert not anchor or anchor in Page(ours / name).ids, address


@pytest.mark.slow
def test_every_heading_has_a_permalink_and_every_picture_a_text(ours):
    for path in ours.rglob("*.html"):
        page = Page(path)
        for level, name, inside in re.findall(r'(?s)<h([23]) id="([^"]+)">(.*?)</h\1>', page.text):
            assert f'class="permalink" href="#{name}"' in inside, (path, level)
        for each in page.all("img"):
            # a card names its picture itself
            assert each["alt"] or "thumbnails/" in each["src"], (path, each)
            assert each["loading"] == "lazy"


@pytest.mark.slow
def test_those_who_listen_find_their_way(ours):
    for path in [ours / "index.html", *sorted((ours / "tables").iterdir())[::20]]:
        page = Page(path)
        assert re.match(r'\s*<!doctype html>\s*<html lang="en"', page.text)
        assert all(len(page.all(tag)) == 1 for tag in ("h1", "header", "main", "title", "footer"))
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
        assert page.all("a")[0]["href"] == "#main" == f"#{page.all('main')[0]['id']}"
        assert len(page.all("table")) == len(page.all("caption"))
        assert {each["scope"] for each in page.all("th")} <= {"col", "row", "rowgroup"}
        fields = len(page.all("input")) + len(page.all("select"))
        assert fields == page.text.count("<label>")


@pytest.mark.slow
def test_version_licence_and_citation_are_there(ours):
    text = between(read(ours, "index.html"), 'id="cite"', "</section>")
    assert "MIT licence" in text and "Maddock" in text and "1.0.0" in text


@pytest.mark.slow
def test_findings_are_read_in_full_and_the_first_page_quotes_six(ours):
    stories = between(read(ours, "index.html"), '<ul class="stories">', "</ul>")
    assert stories.count("<h3><a href=") == stories.count("<img ") == 6
    work = read(ours, "works/maddock2024.html")
    assert "<!--=" not in work and "The server must be trusted" in work
    assert 'href="../tables/maddock2024_tab2.html"' in between(work, "private proxy", "</ul>")


@pytest.mark.slow
def test_a_page_of_the_library_shows_signature_parameters_errors_and_source(ours):
    page = Page(ours / "library" / "privacy.html")
    calibrate = between(page.text, '<h2 id="calibrate">', "</section>")
    assert "from fedsynth_lib.core.accounting import calibrate" in calibrate
    assert "calibrate(plan, privacy)" in calibrate
    assert "<code>privacy</code></th><td><code>Privacy</code></td>" in calibrate
    assert "<b>Returns</b> <code>float</code>" in calibrate
    assert "Raises BadInput if no multiplier" in calibrate and "def calibrate(" in calibrate
    budget = between(page.text, '<h2 id="Privacy">', "</section>")
    assert "<code>False</code></td><td>allow a delta above 1 / rows of the run" in budget
    own = between(read(ours, "library/your_own_table.html"), '<h2 id="synthesize">', "</section>")
    assert "Draw secret noise, for rows that may be handed on." in between(
        own, "<code>release</code></th>", "</tr>"
    )
    assert "<td><code>a function</code></td><td>Is told what begins" in own
    assert "<b>Errors</b> BadInput: In one sentence, for what cannot be asked" in own
    assert "<pre>&gt;&gt;&gt; synthetic, statement = fs.synthesize(df" in own
    assert "A dict of the privacy statement; printed, its text." in own
    for path in (ours / "library").iterdir():
        text = read(ours, f"library/{path.name}")
        assert not re.search(r" at 0x| -{4,} ", re.sub("(?s)<details>.*?</details>", "", text)), (
            path
        )
        for table in re.findall("(?s)<table>.*?</table>", text):
            if ">meaning</th>" in table:
                assert re.search(r"<td>(?!</td>)(?:(?!</?td>).)+</td></tr>", table)
    listed = read(ours, "library.html")
    for room in report_api.ROOMS:
        for each in report_api.names(room):
            name = each["name"]
            assert each["summary"], name
            assert f'#{name}"><code>{name}</code></a>' in listed


def test_parameters_are_read_from_both_forms_of_a_docstring():
    def told() -> None:
        """Do it.

        Parameters
        ----------
        first : int
            A number.
        second, third
            Both
            of them.

        Returns
        -------
        int
            The sum.

        Notes
        -----
        Plain.
        """

    sections = dict(
        zip(*[iter(report_api.SECTION.split(inspect.getdoc(told))[1:])] * 2, strict=True)
    )
    assert report_api.described(sections["Parameters"]) == [
        ("first", "A number."),
        ("second, third", "Both\n    of them."),
    ]
    assert sections["Returns"].split() == ["int", "The", "sum."] and list(sections)[-1] == "Notes"
    prepared = report_api.documented("fedsynth_lib.release.your_table", "prepare")
    means = {name: meaning for name, _, _, meaning in prepared["parameters"]}
    assert means["unit"] == means["most_rows"] != "" and means["num_clients"].endswith("0 is one.")
    assert prepared["raises"].endswith("the ledger of this population refuses.")
    drawn = report_api.documented("fedsynth_lib.figures.points", "boxes")
    assert {name: meaning for name, *_, meaning in drawn["parameters"]}["guess"].startswith("panel")


@pytest.mark.slow
def test_pages_of_text_are_linked_from_the_first(ours):
    first = read(ours, "index.html")
    for stem, words in (
        ("judging", "no more than chance"),
        ("privacy", "one record, added or removed"),
        ("glossary", "A smaller epsilon is a stronger guarantee"),
        ("teaching", "Is a table without names anonymous?"),
        ("start", "Hospitals are often not allowed to pool their patient records"),
        ("outcomes", "FLAIM</strong> (maddock2024)"),
        ("field", "only these have to be trusted"),
        ("more", "MIT licence"),
    ):
        text = re.sub(r"\s+", " ", read(ours, f"{stem}.html"))
        assert words in text and "<!--=" not in text
        assert f'href="{stem}.html"' in first
    assert 'href="library.html"' in first


@pytest.mark.slow
def test_the_page_of_a_work_shows_every_published_value_against_ours(ours):
    for work in WORKS:
        part = between(read(ours, f"works/{work}.html"), 'id="values"', '<h2 id="exhibits"')
        assert f"90_against_published_{work}.png" in part


# --- small trees ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_best_profile_comes_first_and_stand_ins_are_named_in_words(home):
    for folder in ("smoke", "paper-standin", "quick"):
        draw(home, f"live/{folder}/maddock2024_fig3")
    draw(home, "live/smoke/maddock2024_fig30")  # no figure of the work, and not a file of fig3
    draw(home, "live/smoke/maddock2024_fig3_more")
    site = build(home)
    part = read(site, "tables/maddock2024_fig3.html")
    assert re.findall(r'<img src="\.\./([^"]+)"', part) == [
        f"../live/{folder}/maddock2024_fig3.png" for folder in ("quick", "smoke", "paper-standin")
    ] + ["../live/smoke/maddock2024_fig3_more.png"]
    before, _, folded = part.partition(
        "<details><summary>The same in other profiles: smoke, paper-standin</summary>"
    )
    assert "profile quick" in before and "stand-in" not in before
    assert "profile paper<strong> on stand-in tables, not the real ones</strong>" in folded
    assert 'width="1" height="1"' in before and 'alt="Figure 3 of maddock2024: ' in before
    assert "fig30" not in part and (site / "tables" / "maddock2024_fig30.html").is_file()
    assert "Nothing has been made yet: ./run_all.sh --only 42,01" in read(
        site, "tables/maddock2024_tab1.html"
    ).replace("01,42", "42,01")
    assert "No notebook makes it yet." in read(site, "tables/sattarov2024_fig3.html")


@pytest.mark.slow
def test_tables_come_as_saved_beside_the_published_values(home):
    frame = pd.DataFrame({"a|b": ["1.0 ± 0.1 (2.0) ↕", NASTY], "n": [1.23456, None]})
    save_table(frame, "maddock2024_tab1", profile="paper", data="real", caption=f"Ours, {NASTY}")
    save_table(frame.iloc[:0], "maddock2024_tab3", profile="paper", data="real", caption="None")
    bare = home / "figures" / "maddock2024_tab2.csv"  # without its Markdown
    bare.write_text("method,nll,profile,data,version\nAIM,19.25,paper,real,1.0.0\n")
    site = build(home)
    assert '<th scope="row">AIM</th><td class="number">19.25</td></tr>' in read(
        site, "tables/maddock2024_tab2.html"
    )
    assert ">a|b</th>" in read(site, "tables/maddock2024_tab3.html")  # without rows
    part = read(site, "tables/maddock2024_tab1.html")
    assert "<script>alert" not in part
    ours, published = part.split("<summary>Published values</summary>")
    table = between(ours, "<thead>", "</table>")
    cells = [re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<t[hd]\b.*?</t[hd]>", table)]
    nasty = str(escape(NASTY))
    assert cells == ["a|b", "n", "1.0\xa0±\xa00.1 (2.0)\xa0↕", "1.235", nasty, "–"]
    assert f"<caption><span>Ours, {nasty}" in ours
    assert set(re.findall(r'href="\.\./(\.\./maddock[^"]+)"', ours)) == {
        f"../maddock2024_tab1.{kind}" for kind in ("csv", "md", "tex")
    }
    values = pd.read_csv(ROOT / "data/published/values/maddock2024/tab1.csv", dtype=str)
    assert all(f">{each}</td>" in published for each in values["mean"])
    assert ">32561<" in read(site, "works/sattarov2024.html")  # stated in the text


@pytest.mark.slow
def test_a_broken_file_is_named_in_one_line_and_the_old_pages_stay(home, capsys):
    site = build(home)
    assert capsys.readouterr().out.endswith(f"The report: {site / 'index.html'}\n")
    before = {path: path.read_bytes() for path in site.rglob("*.html")}
    for name, content, said in (
        ("maddock2024_tab1.csv", b"", "maddock2024_tab1.csv cannot be read"),
        ("maddock2024_fig3.png", b"\x89PNG", "maddock2024_fig3.png is not a PNG"),
    ):
        path = home / "figures" / name
        path.write_bytes(content)
        assert not report.refresh()
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("The report could not be built: ") and said in line
        assert {path: path.read_bytes() for path in site.rglob("*.html")} == before
        path.unlink()


def test_nothing_published_or_no_notebook_is_said_and_not_raised(home, capsys):
    shutil.rmtree(home / "notebooks")
    assert not report.refresh()
    assert "there is no notebook in" in capsys.readouterr().out
    write(home, "01_data", "x = 1")
    (home / "data" / "published").unlink()
    assert not report.refresh()
    assert capsys.readouterr().out.startswith("The report could not be built: ")


@pytest.mark.slow
def test_a_page_of_an_earlier_site_goes_and_a_file_of_a_person_stays(home):
    path = draw(home, "51_seen")
    site = build(home)
    mine = [site / "mine.html", site / "mine" / "page.html"]
    for each in mine:
        each.parent.mkdir(exist_ok=True)
        each.write_text("kept", encoding="utf-8")
    assert (site / "tables" / "51_seen.html").is_file()
    path.unlink()
    build(home)
    assert not (site / "tables" / "51_seen.html").exists()
    assert all(each.read_text(encoding="utf-8") == "kept" for each in mine)


def executed(home: Path, folder: str, name: str, *cells) -> Path:
    path = home / "figures" / "executed" / folder / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def picture(path: Path, root: Path, **told: str):
    """A cell whose output is a saved figure."""
    data = {"image/png": "iVBORw0KGgo=", "text/plain": str(path.relative_to(root))}
    shown = new_output("display_data", data, metadata={"image/png": told})
    return new_code_cell("save.figure()", outputs=[shown])


@pytest.mark.slow
def test_executed_notebooks_are_pages_and_rendered_only_where_they_changed(home, monkeypatch):
    for folder, text in (("smoke", "small"), ("quick", "larger")):
        cells = [new_markdown_cell(f"## Part {number}\n{text}") for number in range(5)]
        links = "[a](01_data.ipynb) [b](x) [c](../README.md#how-far-the-works-reproduce)"
        executed(home, folder, "42_tables", *cells, new_markdown_cell(links))
    half = home / "figures" / "executed" / "smoke" / "01_data.ipynb"
    half.write_text('{"cells": [', encoding="utf-8")  # being written
    site = build(home)
    text = read(site, "notebooks/42_tables.html")
    assert "larger" in text and "small" not in text
    assert not re.search(r'(src|href)="(https?:)?//', text)
    assert [each.id for each in contents(text)] == [f"Part-{number}" for number in range(5)]
    assert '<li class="level2"><a href="#Part-4">Part 4</a>' in between(
        text, 'class="toc"', "</nav>"
    )
    assert '<a class="gone">b</a>' in text  # not a link to nothing
    assert '<a href="../judging.html">c</a>' in text
    assert not (site / "notebooks" / "01_data.html").exists()
    assert 'href="../executed/quick/42_tables.ipynb"' not in read(site, "notebooks.html")
    assert 'href="notebooks/42_tables.html"' in read(site, "notebooks.html")

    calls = []
    monkeypatch.setattr(report, "body_of", lambda path: calls.append(path) or "again")
    build(home)
    assert "larger" in read(site, "notebooks/42_tables.html") and calls == [half]
    executed(home, "quick", "42_tables", new_markdown_cell("changed"))
    build(home)
    assert "again" in read(site, "notebooks/42_tables.html")


def test_the_search_finds_words_of_a_notebook_and_no_signs_of_html():
    found = report.notebook_text("<p>NIST&#x27;s &quot;k-marginal&quot; score &amp; more</p>")
    assert found.split() == ["NIST", "k-marginal", "score", "more"]


@pytest.mark.slow
def test_the_text_of_a_picture_reaches_the_page_of_its_notebook_and_its_own(home):
    drawn = draw(home, "maddock2024_fig3")
    alone = draw(home, "42_other")
    executed(
        home,
        "paper",
        "42_tables",
        new_markdown_cell("## What is drawn"),
        picture(drawn, home, alt="Errors fall with epsilon"),
        picture(alone, home),
    )
    site = build(home)
    texts = [each["alt"] for each in Page(site / "notebooks" / "42_tables.html").all("img")]
    assert texts == ["Errors fall with epsilon", "Picture in the section: What is drawn"]
    figure = Page(site / "tables" / "maddock2024_fig3.html")
    assert figure.all("img")[0]["alt"] == "Errors fall with epsilon"
    assert "42_other" in figure.text  # of the same notebook
    assert "Notebook 42_tables" in read(
        site, "tables/42_other.html"
    ) and "No description has been provided" not in body_of(
        home / "figures/executed/paper/42_tables.ipynb"
    )


def test_code_before_the_first_result_is_folded_in_the_page_of_a_notebook(home):
    kinds = [{"tags": ["parameters"]}, {"jupyter": {"source_hidden": True}}, {}]
    cells = [new_code_cell(f"x = {n}", metadata=each) for n, each in enumerate(kinds)]
    page = body_of(executed(home, "paper", "42_tables", *cells))
    assert re.findall(r"<summary>(.*?)</summary>", page) == ["Parameters", "Code"]
    assert [page.count(f">{n}<") for n in range(3)] == [1, 1, 1]  # to be unfolded
    assert page.rindex("</details>") < page.index(">2<")


@pytest.mark.slow
@pytest.mark.parametrize("lite", [False, True])
def test_a_portable_site_needs_no_other_file(home, tmp_path_factory, lite):
    draw(home, "maddock2024_fig3")
    folder = tmp_path_factory.mktemp("host") / "site"
    if lite:  # as .ci/lite makes it
        (folder / "lite" / "lab").mkdir(parents=True)
        (folder / "lite" / "lab" / "index.html").write_text("<p>lessons</p>", encoding="utf-8")
    assert report.refresh(folder, portable=True)
    assert ("lite/lab/index.html" in read(folder, "notebooks.html")) == lite
    for path in folder.rglob("*.html"):
        for _, each in Page(path).elements:
            for target in (each.get("href", ""), each.get("src", "")):
                name = unquote(target.partition("#")[0].partition("?")[0])
                if name and target != "data:,":
                    file = Path(os.path.normpath(path.parent / name))
                    assert file.is_file() and file.is_relative_to(folder), (path, target)
    assert (folder / "files" / "figures" / "maddock2024_fig3.png").is_file()


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem
)
def test_formulas_are_drawn_without_a_network(notebook):
    """What the converter does not know it leaves as a word with a backslash."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    shown = re.sub(r"(?s)<(code|pre)\b.*?</\1>", "", Pages().markdown2html({}, text))
    assert not re.search(r"\\|\$.+\$", re.sub(r"<[^>]*>", "", shown))


def test_formulas_keep_what_they_say():
    shown = Pages().markdown2html(
        {}, r"With $\varepsilon < 1$ and a price of `$5`: $$\frac{a}{b}$$"
    )
    inline, block = re.findall(r"<math.*?</math>", shown)
    assert "&#x003B5;" in inline and "&#x0003C;" in inline and 'display="inline"' in inline
    assert "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>" in block
    assert 'display="block"' in block and "<code>$5</code>" in shown


@pytest.mark.slow
def test_a_run_with_a_failure_ends_with_the_report_of_the_rest(home, capsys):
    write(home, "42_tables", "raise KeyError('x')", exhibits=["maddock2024/tab1"])
    assert runner.main(["--profile", "smoke", "--only", "42"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-5:-2] == [
        f"The report: {home / 'figures' / 'report' / 'index.html'}",
        "It shows what the other notebooks made; to run the rest: ./run_all.sh --only 42",
        "",
    ]
    assert lines[-2].startswith("notebook") and lines[-1].split()[:2] == ["42_tables", "failed"]
    site = home / "figures" / "report"
    assert "last run did not finish 1 notebook: 42_tables" in read(site, "index.html")
    assert "failed smoke" in between(read(site, "notebooks.html"), 'id="42_tables"', "</li>")


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("5.2.1; fig5.3a", {"fig5.3"}),
        ("6.4 (fig 6.3, 6.4)", {"fig6.3", "fig6.4"}),
        ("6.1.1 (tab 6.1-6.3)", {"tab6.1", "tab6.2", "tab6.3"}),
        ("tab5.5 to tab5.8; section 5.2", {"tab5.5", "tab5.6", "tab5.7", "tab5.8"}),
        ("Abstract; tab4, tabA1", {"tab4", "tabA1"}),
        ("5 RQ1", set()),
    ],
)
def test_the_place_of_a_claim_names_tables_and_figures(place, named):
    assert report_words.places(place) == named


def test_sentences_count_what_is_there():
    claims = pd.DataFrame({"outcome": ["holds", "undecided", "holds", "does not hold"]})
    assert report_words.claims_counted(claims) == "2 hold, 1 does not hold and 1 is undecided"
    assert report_words.claim_shares(claims) == [
        ("holds", 2),
        ("partly", 0),
        ("fails", 1),
        ("open", 1),
        ("rest", 0),
    ]
    claims = pd.DataFrame({"outcome": ["partly", "not in full", "vacuous", "not tested"]})
    assert report_words.claims_counted(claims) == (
        "2 do not hold in full and 2 were not tested or cannot fail"
    )
    table = pd.DataFrame(
        {
            "group": ["ours, federated"] * 3 + ["ours, central"],
            "method": ["a", "b", "c", "d"],
            "trusted": ["a server", "a secure sum", "a server", "a curator"],
            "score mean": [95.0, np.nan, 101.5, 300],
            "score half": [1.0, np.nan, 2.0, np.nan],
        }
    )
    assert report_words.leaders(table, "score") == [("a server", "c", "101.5 ± 2.0")]
    assert report_words.tied(table, "score") == {"c": "101.5 ± 2.0"}
    wider = table.assign(method=["a, one kind", "b", "c", "d"])
    wider.loc[0, "score half"] = 4.5
    assert report_words.tied(wider, "score") == {"c": "101.5 ± 2.0", "a": "95.0 ± 4.5"}
    lines = [
        {"work": "maddock2024", "method": "an oracle", "most": 1, "least": 1},
        {"work": "leitner2023", "method": "a GAN", "most": 4, "least": 0},
    ]
    assert report_words.not_private(lines) == ["leitner2023"]


@pytest.mark.parametrize(
    ("outcome", "same", "said"),
    [
        ("undecided", "25 of 50", "fewer than 95 % of the resampled sets of runs reach the same"),
        ("not in full", "32 of 50", "and hardly any of them satisfies the whole claim"),
        ("undecided", "one run of some", "have one run, so that they cannot be resampled"),
        ("undecided", "50 of 50", ""),  # runs of another size would decide it
        ("holds", "50 of 50", ""),
        ("undecided", "", ""),
    ],
)
def test_a_claim_that_is_open_says_why(outcome, same, said):
    claim = next(pd.DataFrame([{"outcome": outcome, "same_outcome": same}]).itertuples())
    why = report_words.why_open(claim)
    assert bool(why) == bool(said) and said in why


def test_what_fails_is_not_said_again_in_what_holds():
    texts = [(1, "a is below b"), (0, "c in 3 of 4"), (1, "d")]
    evidence = outcomes.Evidence.of(texts)
    claim = next(pd.DataFrame([{"evidence": evidence, "fails": evidence.fails}]).itertuples())
    assert report_words.holding(claim) == "a is below b; d"


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): #([0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    """WCAG 2, relative luminance of `rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_is_enough_by_day_and_by_night():
    css = (ROOT / "fedsynth_lib" / "bundle" / "templates" / "report.css").read_text(
        encoding="utf-8"
    )
    light, dark = map(colours, re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2])
    assert light.keys() == dark.keys()
    for scheme in (light, dark):
        for ground in ("paper", "panel"):
            for ink in ("ink", "soft", "link", "good", "fair", "poor"):
                pair = sorted((luminance(scheme[ground]), luminance(scheme[ink])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (ground, ink)


def test_templates_travel_with_the_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    assert "templates/*" in settings["package-data"]["fedsynth_lib.bundle"]
    assert {"base.html", "report.css", "report.js"} <= {path.name for path in TEMPLATES.iterdir()}
