"""The report of this repository in a real browser: it loads, fits, sorts, filters, and can be used
by keyboard."""

import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from fedsynth_lib.bundle import report
from fedsynth_lib.printed.published import load_catalogue

pytestmark = pytest.mark.browser
pytest_plugins = ["browser"]

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    """The page over the committed results, in a folder of its own."""
    home = tmp_path_factory.mktemp("report")
    for path in [
        ROOT / "notebooks",
        ROOT / "data" / "published",
        *(ROOT / "figures" / each for each in ("paper", "quick")),
    ]:
        link = home / path.relative_to(ROOT)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSYNTH_HOME", str(home))
        assert report.refresh().startswith("The report: ")
    return (home / "figures" / "report" / "index.html").as_uri()


@pytest.fixture
def page(browser, url):
    """The page, freshly loaded, wide and by day; it must not complain."""
    browser.resize(1280)
    browser.get(url)
    yield browser
    assert browser.complaints() == []


def unfold(page) -> None:
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")


def column(page, place: int) -> list[str]:
    """The visible texts of a column of the map."""
    script = """return [...document.querySelectorAll("#exhibits tbody tr")].filter((row) => row.checkVisibility())
        .map((row) => row.cells[arguments[0]].textContent)"""
    return page.execute_script(script, place)


def heads(page) -> list:
    return page.find_elements(By.CSS_SELECTOR, "#exhibits th button")


def directions(page) -> list[str]:
    return [
        each.get_attribute("aria-sort")
        for each in page.find_elements(By.CSS_SELECTOR, "#exhibits thead th")
    ]


def exhibits(work: str) -> list[str]:
    """The labels of a work's exhibits as a person would sort them: fig2 before fig10."""
    labels = load_catalogue(work)["id"].str.partition("/")[2]
    return sorted(labels, key=lambda label: (label[:3], *map(int, re.findall(r"\d+", label))))


def test_every_link_leads_to_a_file_and_every_picture_loads_and_has_a_text(page):
    targets = page.execute_script("return [...document.links].map((each) => each.href)")
    files = {unquote(urlsplit(each).path) for each in targets}
    assert len(files) > 300
    assert [each for each in files if not Path(each).is_file()] == []
    inside = """return [...document.links].map((each) => each.hash.slice(1))
        .filter((name) => name && !document.getElementById(decodeURIComponent(name)))"""
    assert page.execute_script(inside) == []

    unfold(page)
    page.execute_script("for (const each of document.images) each.loading = 'eager'")
    wait = WebDriverWait(page, 60)
    wait.until(
        lambda page: page.execute_script(
            "return [...document.images].every((each) => each.complete)"
        )
    )
    pictures = page.execute_script(
        "return [...document.images].map((e) => [e.src, e.naturalWidth, e.alt, e.width / e.height])"
    )
    assert len(pictures) > 50
    for source, width, text, shape in pictures:
        assert width > 0 and len(text) > 20 and 0.2 < shape < 8, source


def test_headings_do_not_skip_a_level(page):
    levels = page.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((e) => +e.tagName[1])"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("width", [320, 375, 768, 1600])
def test_nothing_is_wider_than_the_screen(page, width):
    page.resize(width)
    wider = """const width = document.documentElement.clientWidth
        return [...document.querySelectorAll("body, body *")].filter((each) => !each.parentElement.closest(".scroll"))
            .filter((each) => each.getBoundingClientRect().right > width + 0.5)
            .map((each) => each.outerHTML.slice(0, 100))"""
    for _ in range(2):
        assert page.execute_script(wider) == []
        assert page.execute_script("return document.scrollingElement.scrollWidth") <= width
        unfold(page)


def test_on_a_phone_claims_need_no_scrolling_sideways_and_stay_a_table(page):
    page.resize(375)
    unfold(page)
    frames = """return [...document.querySelectorAll(".scroll:has(.claims)")].map((e) => [e.scrollWidth, e.clientWidth])"""
    assert page.execute_script(frames)
    assert all(inner <= outer for inner, outer in page.execute_script(frames))
    roles = "return [...document.querySelector('.claims tbody tr').cells].map((each) => each.role)"
    assert page.execute_script(roles) == ["rowheader", "cell", "cell"]


def test_a_click_sorts_as_people_count_and_a_second_one_turns_it_round(page):
    Select(page.find_element(By.ID, "work")).select_by_visible_text("maddock2024")
    heads(page)[0].click()
    assert column(page, 0) == exhibits("maddock2024")
    assert column(page, 0).index("fig2") < column(page, 0).index("fig10")
    assert directions(page) == ["ascending", *["none"] * 5]
    heads(page)[0].click()
    assert column(page, 0) == exhibits("maddock2024")[::-1]
    assert directions(page) == ["descending", *["none"] * 5]
    heads(page)[4].click()
    assert column(page, 4) == sorted(column(page, 4)) and len(set(column(page, 4))) > 1
    assert directions(page) == [*["none"] * 4, "ascending", "none"]


@pytest.mark.parametrize("key", [Keys.ENTER, Keys.SPACE])
def test_the_keyboard_sorts(page, key):
    Select(page.find_element(By.ID, "work")).select_by_visible_text("leitner2023")
    page.find_element(By.ID, "work").send_keys(Keys.TAB)  # to the frame of the table, which scrolls
    assert page.switch_to.active_element.get_attribute("class") == "scroll"
    page.switch_to.active_element.send_keys(Keys.TAB)
    head = page.switch_to.active_element
    assert head == heads(page)[0]
    assert head.value_of_css_property("outline-style") == "solid"  # one sees where one is
    head.send_keys(key)
    assert column(page, 0) == exhibits("leitner2023") and directions(page)[0] == "ascending"
    assert page.switch_to.active_element == head


def test_filters_by_words_and_by_work_and_both_can_be_taken_back(page):
    rows = page.execute_script(
        "return [...document.querySelectorAll('#exhibits tbody tr')].map((e) => "
        "e.textContent.toLowerCase())"
    )
    words, work = page.find_element(By.ID, "words"), Select(page.find_element(By.ID, "work"))
    words.send_keys("Table ADULT")
    assert len(column(page, 0)) == sum("table" in row and "adult" in row for row in rows)
    words.clear()
    words.send_keys("fidelity")
    expected = load_catalogue()["title"][lambda titles: titles.str.contains("fidelity", case=False)]
    assert set(column(page, 2)) >= set(expected) and 0 < len(column(page, 2)) < len(rows)
    work.select_by_visible_text("maddock2024")
    words.clear()
    words.send_keys(" ", Keys.ENTER)  # Enter loads no other page
    assert sorted(column(page, 0)) == sorted(exhibits("maddock2024"))
    assert (
        page.find_element(By.TAG_NAME, "output").text
        == f"{len(exhibits('maddock2024'))} of {len(rows)} shown"
    )
    words.send_keys("no such thing")
    assert column(page, 0) == []
    words.clear()
    words.send_keys(" ")
    work.select_by_index(0)
    assert len(column(page, 0)) == len(rows)


def test_the_first_stop_of_the_keyboard_leads_past_the_links(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    skip = page.switch_to.active_element
    assert skip.text == "Skip to the content" and skip.rect["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.tag_name == "main"


def test_a_link_of_the_map_leads_below_the_bar_that_stays(page):
    page.execute_script("document.querySelector('a[href=\"#maddock2024/fig3\"]').click()")
    tops = """return [document.getElementById("maddock2024/fig3"), document.querySelector("nav")]
        .map((each) => each.getBoundingClientRect())"""
    heading, bar = page.execute_script(tops)
    assert bar["top"] == 0 and bar["bottom"] <= heading["top"] < 300


def test_night_is_dark_and_paper_has_everything_unfolded(page):
    ground = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert min(page.execute_script(ground)) > 230
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert max(page.execute_script(ground)) < 50
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert min(page.execute_script(ground)) > 230
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert (
        page.execute_script("return document.querySelectorAll('details:not([open])').length") == 0
    )
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script("return document.querySelectorAll('details[open]').length") == 0
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
