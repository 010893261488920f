"""The report page, built from small trees: what it shows, what it links, what it survives."""

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
import pandas as pd
import pytest
from markupsafe import escape
from matplotlib import image
from nbformat.v4 import new_markdown_cell, new_notebook
from tiny import write

from fedsynth_lib.bundle import report, runner
from fedsynth_lib.bundle.report_pages import Pages
from fedsynth_lib.figures.save import save_table
from fedsynth_lib.printed.outcomes import OUTCOMES
from fedsynth_lib.printed.published import UNTESTED, WORKS, load_catalogue, load_claims

ROOT = Path(__file__).resolve().parents[1]
NASTY = "<script>alert(1)</script> & \"quotes\" 'too' a < b"


class Page(HTMLParser):
    """The elements of a page in order; refuses one that is not closed where it should be."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A project with the published values, two notebooks, and nothing made."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "published").symlink_to(ROOT / "data" / "published")
    write(tmp_path, "42_tables", "x = 1", exhibits=["maddock2024/tab1", "maddock2024/fig3"])
    write(tmp_path, "01_data", "x = 1", exhibits=["martinez2024/tab5.1", "maddock2024/tab1"])
    return tmp_path


def draw(home: Path, name: str) -> None:
    path = home / "figures" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    image.imsave(path, [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])


def judge(home: Path, name: str, *rows: tuple[str, str, str]) -> None:
    path = home / "figures" / f"{name}_claims.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    shares = {"holds": 1.0, "partly": 0.7, "does not hold": 0.0}
    table = pd.DataFrame(rows, columns=["id", "verdict", "evidence"])
    table.assign(share=table["verdict"].map(shares)).to_csv(path, index=False)


def build(home: Path) -> tuple[Page, str]:
    line = report.refresh()
    path = home / "figures" / "report" / "index.html"
    assert line == f"The report: {path}"
    text = path.read_text(encoding="utf-8")
    return Page(text), text


def between(text: str, start: str, end: str) -> str:
    return text[text.index(start) :].partition(end)[0]


def test_the_page_of_this_repository_is_whole(home):
    shutil.rmtree(home / "notebooks")
    (home / "figures").mkdir()
    for path in [ROOT / "notebooks", *(ROOT / "figures").glob("*.*")]:
        (home / path.relative_to(ROOT)).symlink_to(path)
    page, text = build(home)

    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert max(Counter(ids).values()) == 1
    for target in (
        each[name] for _, each in page.elements for name in ("href", "src") if name in each
    ):
        if target.startswith("#"):
            assert unquote(target[1:]) in ids, target
        elif target != "data:,":
            assert not re.match(r"[a-z]+:|/", target), target
            assert (home / "figures" / "report" / unquote(target)).is_file(), target
    for kind in ("css", "js"):
        content = (ROOT / "fedsynth_lib" / "bundle" / f"report.{kind}").read_text(encoding="utf-8")
        assert content in text and not re.search(r"@import|url\(|https?:|</", content)

    shown = {each.get("id") for each in page.all("h3")}
    catalogue = load_catalogue()
    assert set(catalogue.loc[catalogue["regenerable"] == "yes", "id"]) <= shown
    table = between(text, '<table id="exhibits">', "</table>")
    assert table.count('<th scope="row">') >= len(catalogue)
    for each in catalogue.itertuples():
        assert f"<td>{each.id.partition('/')[0]}</td><td>{escape(each.title)}</td>" in table
    names = tuple(catalogue.loc[catalogue["id"].isin(shown), "id"].str.replace("/", "_"))
    drawn = {
        path
        for path in (ROOT / "figures").glob("*.png")
        if path.stem in names or path.name.startswith(tuple(f"{name}_" for name in names))
    }
    pictures = {each["src"]: each["alt"] for each in page.all("img")}
    assert pictures.keys() >= {f"../{path.name}" for path in drawn} and all(pictures.values())


def test_those_who_listen_to_it_find_their_way(home):
    draw(home, "maddock2024_fig3")
    page, text = build(home)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert all(len(page.all(tag)) == 1 for tag in ("h1", "header", "nav", "main", "title"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    assert page.all("a")[0]["href"] == "#main" == f"#{page.all('main')[0]['id']}"
    assert len(page.all("table")) == len(re.findall("<caption><span>[^<]+</span></caption>", text))
    assert {each["scope"] for each in page.all("th")} == {"col", "row"}
    heads = re.findall(
        r'<th scope="col" aria-sort="none"><button '
        r'type="button">([^<]+)</button></th>',
        text,
    )
    # the map's, and no other table's
    assert heads == ["exhibit", "work", "title", "notebook", "status", "made"]
    assert sum("aria-sort" in each for each in page.all("th")) == 6
    fields = len(page.all("input")) + len(page.all("select"))
    assert fields == len(re.findall("<label>[A-Z][a-z ]+<(?:input|select) ", text)) == 2


def test_the_best_profile_stands_first_and_stand_ins_are_named_in_words(home):
    for folder in ("smoke", "paper-standin", "quick"):
        draw(home, f"live/{folder}/maddock2024_fig3")
    draw(home, "live/smoke-standin/martinez2024_tab5.1")
    draw(home, "live/smoke/maddock2024_fig30")  # no exhibit, and not a further file of fig3
    draw(home, "live/smoke/maddock2024_fig3_more")
    _, text = build(home)
    part = between(text, 'id="maddock2024/fig3"', "<h3")
    assert re.findall(r'<img src="([^"]+)"', part) == [
        f"../live/{folder}/maddock2024_fig3.png" for folder in ("quick", "smoke", "paper-standin")
    ] + ["../live/smoke/maddock2024_fig3_more.png"]
    before, _, folded = part.partition(
        "<details><summary>The same in other profiles: smoke, paper-standin</summary>"
    )
    assert "profile quick" in before and "stand-in" not in before
    assert "profile paper<strong> on stand-in tables, not the real ones</strong>" in folded
    assert 'width="1" height="1"' in before and 'alt="Figure 3 of maddock2024: ' in before
    table = between(text, '<table id="exhibits">', "</table>")
    assert re.search(r'href="#maddock2024/fig3".*?<td>here</td><td>quick</td></tr>', table)
    assert re.search(
        r'href="#martinez2024/tab5.1".*?<td>here</td><td>smoke, '
        r"stand-in</td></tr>",
        table,
    )
    assert "fig30" not in text
    assert (
        "2 have been made" in text
        and "Nothing has been made yet: ./run_all.sh --only 01_data" in text
    )
    assert "No notebook makes it yet." in between(text, 'id="sattarov2024/fig3"', "<h3")


def test_tables_come_as_saved_beside_the_printed_values(home):
    frame = pd.DataFrame({"a|b": ["1.0 ± 0.1 (2.0) ↕", NASTY], "n": [1.23456, None]})
    save_table(frame, "maddock2024_tab1", profile="paper", data="real", caption=f"Ours, {NASTY}")
    bare = home / "figures" / "maddock2024_tab2.csv"  # without its Markdown
    bare.write_text("method,nll,profile,data,version\nAIM,19.25,paper,real,0.1.0\n")
    _, text = build(home)
    assert '<th scope="row">AIM</th><td>19.25</td></tr></tbody>' in between(
        text, 'id="maddock2024/tab2"', "<summary>"
    )
    part = between(text, 'id="maddock2024/tab1"', "<h3")
    assert "<script>alert" not in text
    ours, printed = part.split("<summary>Printed values</summary>")
    cells = [re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<t[hd]\b.*?</t[hd]>", ours)]
    nasty = str(escape(NASTY))
    assert cells == ["a|b", "n", "1.0\xa0±\xa00.1 (2.0)\xa0↕", "1.235", nasty, "–"]
    assert f"<caption><span>Ours, {nasty}</span></caption>" in ours
    assert re.findall(r'href="(\.\./maddock[^"]+)"', ours) == [
        f"../maddock2024_tab1.{kind}" for kind in ("csv", "md", "tex")
    ]
    # both notebooks make it
    assert part.count('href="#01_data"') == part.count('href="#42_tables"') == 1
    values = pd.read_csv(ROOT / "data/published/values/maddock2024/tab1.csv", dtype=str)
    assert all(f"<td>{each}</td>" in printed for each in values["mean"])
    assert "<td>32561</td>" in between(text, "Stated in the text", "</section>")  # of sattarov2024


def test_the_verdict_counts_what_the_claim_files_say(home):
    first, second, third, fourth = load_claims("leitner2023")["id"].head(4)
    other = load_claims("apellaniz2025")["id"].iat[0]
    judge(home, "live/smoke/b", (first, "holds", "of smoke"), (other, UNTESTED, "too small"))
    judge(
        home,
        "live/quick/a",
        (first, "does not hold", f"of quick {NASTY}"),
        (second, UNTESTED, "of quick"),
    )
    judge(home, "a", (first, UNTESTED, "of paper"), (third, "partly", "of paper"))
    judge(
        home,
        "live/smoke-standin/a",
        (first, "holds", "of a stand-in"),
        (second, "holds", "of a stand-in"),
    )
    draw(home, "90_verdict")
    # the verdict's own table counts nothing twice
    judge(home, "90_other", (fourth, "holds", "gathered"))
    _, text = build(home)

    rows = re.findall(r"<tr>(.*?)</tr>", between(text, '<table class="counts">', "</table>"))
    cells = [re.findall(r">([^<>]+)</t[hd]>", row) for row in rows]
    assert cells[0] == ["work", "claims", *OUTCOMES, "not judged yet"]
    sizes = {work: len(load_claims(work)) for work in WORKS}
    expected = {work: [0, 0, 0, 0, 0, 0, 0, size] for work, size in sizes.items()}
    # third, first, second: stand-ins tell nothing
    expected["leitner2023"] = [0, 1, 0, 1, 0, 0, 1, sizes["leitner2023"] - 3]
    expected["apellaniz2025"] = [0, 0, 0, 0, 0, 0, 1, sizes["apellaniz2025"] - 1]
    expected["all"] = [sum(column) for column in zip(*expected.values(), strict=True)]
    sizes["all"] = sum(sizes.values())
    assert cells[1:] == [
        [work, *map(str, [sizes[work], *counts])] for work, counts in expected.items()
    ]

    claims = between(text, "Claims of leitner2023, judged", "</table>")
    assert str(escape(NASTY)) in claims and "<script>" not in claims
    row = between(claims, ">c01</span>", "</tr>")
    shown, _, others = row.partition("<details>")
    assert '<td class="fails">does not hold</td>' in shown and "of quick" in shown
    assert re.search("in other profiles: 3.*of paper.*of smoke.*of a stand-in", others)
    part = between(text, 'id="verdict"', "</section>")
    assert part.index('src="../90_verdict.png"') < part.index('href="../90_other_claims.csv"')


def test_a_broken_file_is_named_in_one_line_and_the_old_page_stays(home):
    _, before = build(home)
    for name, content, said in (
        ("x_claims.csv", b"", "x_claims.csv cannot be read"),
        ("x_claims.csv", b"id,claim\na,b\n", "x_claims.csv lacks id, verdict, share, evidence"),
        # by its columns
        ("x.csv", b"id,verdict,evidence\na,holds,b\n", "x.csv lacks id, verdict, share, evidence"),
        (
            "x_claims.csv",
            b"id,verdict,share,evidence\na,maybe,1,b\n",
            "x_claims.csv lacks id, verdict, share, evidence",
        ),
        ("maddock2024_tab1.csv", b"", "maddock2024_tab1.csv cannot be read"),
        ("maddock2024_fig3.png", b"\x89PNG", "maddock2024_fig3.png is not a PNG"),
    ):
        path = home / "figures" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        line = report.refresh()
        assert (
            line.startswith("The report could not be built: ") and said in line and "\n" not in line
        )
        assert (home / "figures" / "report" / "index.html").read_text(encoding="utf-8") == before
        path.unlink()


def test_nothing_published_or_no_notebook_is_said_and_not_raised(home):
    shutil.rmtree(home / "notebooks")
    assert "there is no notebook in" in report.refresh()
    write(home, "01_data", "x = 1")
    (home / "data" / "published").unlink()
    assert report.refresh().startswith("The report could not be built: ")


def test_executed_notebooks_are_readable_pages_and_made_anew_only_where_they_changed(home):
    executed = home / "figures" / "executed"
    for folder, text in (("smoke", "small"), ("quick", "larger")):
        (executed / folder).mkdir(parents=True)
        nbformat.write(
            new_notebook(cells=[new_markdown_cell(text)]), executed / folder / "42_tables.ipynb"
        )
    # being written
    (executed / "smoke" / "01_data.ipynb").write_text('{"cells": [', encoding="utf-8")
    _, text = build(home)
    row = between(text, '<span id="42_tables">', "</tr>")
    links = [
        "notebooks/42_tables.html",
        "../executed/quick/42_tables.ipynb",
        "../executed/smoke/42_tables.ipynb",
    ]
    assert re.findall(r'href="([^"]+)"', row) == ["../../notebooks/42_tables.ipynb", *links]
    # not a link to nothing
    assert "<td>read (smoke) · <a " in between(text, '<span id="01_data">', "</tr>")
    made = home / "figures" / "report" / "notebooks" / "42_tables.html"
    content = made.read_text(encoding="utf-8")
    assert "larger" in content and not re.search(r'(src|href)="(https?:)?//', content)

    made.write_text("kept", encoding="utf-8")
    source = executed / "quick" / "42_tables.ipynb"
    os.utime(made, ns=(source.stat().st_mtime_ns,) * 2)
    build(home)
    assert made.read_text(encoding="utf-8") == "kept"
    (executed / "paper").mkdir()
    source.rename(executed / "paper" / "42_tables.ipynb")
    os.utime(executed / "paper" / "42_tables.ipynb", (1e9, 1e9))  # older, but better
    build(home)
    assert "larger" in made.read_text(encoding="utf-8")


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


def test_a_run_with_a_failure_ends_with_the_page_and_then_the_table(home, capsys):
    write(home, "42_tables", "raise KeyError('x')", exhibits=["maddock2024/tab1"])
    assert runner.main(["--profile", "smoke", "--only", "42"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:-1] == [
        f"The report: {home / 'figures' / 'report' / 'index.html'}",
        "",
        lines[-2],
    ]
    assert lines[-2].startswith("notebook") and lines[-1].split()[:2] == ["42_tables", "failed"]
    text = (home / "figures" / "report" / "index.html").read_text(encoding="utf-8")
    assert "failed smoke" in between(text, '<span id="42_tables">', "</tr>")


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
    css = (ROOT / "fedsynth_lib" / "bundle" / "report.css").read_text(encoding="utf-8")
    light, dark = map(colours, re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2])
    assert light.keys() == dark.keys()
    for scheme in (light, dark):
        for ground in ("paper", "panel"):
            for ink in ("ink", "soft", "link", "good", "fair", "poor"):
                pair = sorted((luminance(scheme[ground]), luminance(scheme[ink])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (ground, ink)


def test_style_and_script_travel_with_the_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    assert {"report.css", "report.html", "report.js"} <= set(
        settings["package-data"]["fedsynth_lib.bundle"]
    )
