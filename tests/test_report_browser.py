"""The report of this repository in a real browser: it loads, fits, is searched, sorts, filters, and
can be used by keyboard."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from fedsynth_lib.bundle import report
from fedsynth_lib.printed.published import load_catalogue

pytestmark = pytest.mark.browser
pytest_plugins = ["browser"]

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "index.html",
    "tables/maddock2024_tab2.html",
    "tables/martinez2024_tab6.1.html",
    "tables/73_nist_1.html",
    "works/leitner2023.html",
    "methods.html",
    "tables.html",
    "notebooks.html",
    "glossary.html",
    "teaching.html",
    "start.html",
    "field.html",
    "library.html",
    "library/privacy.html",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site over the committed results, in a folder of its own."""
    home = tmp_path_factory.mktemp("report")
    for path in [
        ROOT / "notebooks",
        *(ROOT / "data" / name for name in ("published", "results")),
        *(ROOT / "figures").glob("*.*"),
    ]:
        link = home / path.relative_to(ROOT)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSYNTH_HOME", str(home))
        return report.build().parent


@pytest.fixture
def page(browser, site):
    """The first page, freshly loaded, wide and by day; it must not complain."""
    browser.resize(1280, 800)
    browser.get((site / "index.html").as_uri())
    yield browser
    assert browser.complaints() == []


def unfold(page) -> None:
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")


def found(page, words: str) -> list[str]:
    """The texts of the links that the search shows."""
    box = page.find_element(By.ID, "words")
    box.clear()
    box.send_keys(words)
    return [each.text for each in page.find_elements(By.CSS_SELECTOR, "#hits a")]


def column(page, place: int) -> list[str]:
    script = """return [...document.querySelectorAll("#exhibits tbody tr")]
        .map((row) => row.cells[arguments[0]].textContent)"""
    return page.execute_script(script, place)


def directions(page) -> list[str]:
    heads = page.find_elements(By.CSS_SELECTOR, "#exhibits thead th")
    return [each.get_attribute("aria-sort") for each in heads]


def test_the_first_screen_answers_three_questions_without_scrolling(page):
    answers = page.find_elements(By.CSS_SELECTOR, ".answers a")
    words = ["Did it reproduce?", "Which method?", "Is it private?"]
    assert [each.find_element(By.TAG_NAME, "h2").text for each in answers] == words
    for each in answers:
        assert each.rect["y"] + each.rect["height"] <= 800
        assert each.find_element(By.TAG_NAME, "b").text
    answers[1].click()
    top = page.execute_script(
        "return document.getElementById('methods').getBoundingClientRect().top"
    )
    bar = page.execute_script(
        "return document.querySelector('header').getBoundingClientRect().bottom"
    )
    assert bar <= top < 300


@pytest.mark.parametrize("address", PAGES)
def test_every_picture_loads_and_headings_skip_no_level(page, site, address):
    page.get((site / address).as_uri())
    unfold(page)
    page.execute_script("for (const each of document.images) each.loading = 'eager'")
    loaded = "return [...document.images].every((each) => each.complete)"
    WebDriverWait(page, 60).until(lambda page: page.execute_script(loaded))
    sizes = "return [...document.images].map((each) => [each.src, each.naturalWidth])"
    assert [source for source, width in page.execute_script(sizes) if not width] == []
    levels = page.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((e) => +e.tagName[1])"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("width", [320, 390, 768, 1600])
def test_nothing_is_wider_than_the_screen(page, site, width):
    page.resize(width)
    wider = """const width = document.documentElement.clientWidth
        return [...document.querySelectorAll("body, body *")]
            .filter((each) => !each.parentElement.closest(".scroll, .bar, .skip, .hidden, math"))
            .filter((each) => each.getBoundingClientRect().right > width + 0.5)
            .map((each) => each.outerHTML.slice(0, 100))"""
    for address in PAGES:
        page.get((site / address).as_uri())
        unfold(page)
        assert page.execute_script(wider) == [], address
        assert page.execute_script("return document.scrollingElement.scrollWidth") <= width


def test_on_a_phone_claims_need_no_scrolling_sideways_and_stay_a_table(page, site):
    page.resize(390)
    page.get((site / "works" / "maddock2024.html").as_uri())
    frames = """return [...document.querySelectorAll(".scroll:has(.claims)")]
        .map((each) => [each.scrollWidth, each.clientWidth])"""
    assert page.execute_script(frames)
    assert all(inner <= outer for inner, outer in page.execute_script(frames))
    roles = "return [...document.querySelector('.claims tbody tr').cells].map((each) => each.role)"
    assert page.execute_script(roles) == ["rowheader", "cell", "cell"]


def test_the_first_column_stays_and_numbers_are_on_the_right(page, site):
    page.resize(390)
    page.get((site / "tables" / "martinez2024_tab6.1.html").as_uri())
    script = """const table = document.querySelector(".scroll table"), frame = table.closest(".scroll")
        frame.scrollLeft = 200
        const row = table.tBodies[0].rows[3], number = row.querySelector("td.number")
        return [frame.scrollLeft, row.cells[0].getBoundingClientRect().left -
            frame.getBoundingClientRect().left, getComputedStyle(number).textAlign]"""
    moved, left, side = page.execute_script(script)
    assert moved == 200 and abs(left) < 1 and side == "right"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("epsilon", ""),
        ("FedPGM", "FedPGM method"),
        ("table 6.1 martinez2024", "Table 6.1 of mart"),
        ("FLAIM table 2", "Table 2 of maddock2024"),
        ("figure 3 flaim", "Figure 3 of maddock2024"),
        ("hospital", "What it is, and how to run it"),
        ("cite", "Licence and how to cite"),
    ],
)
def test_the_search_finds_and_the_keyboard_leads_through_it(page, words, first):
    texts = found(page, words)
    assert len(texts) > 0 and texts[0].replace("\n", " ").startswith(first)
    box = page.find_element(By.ID, "words")
    box.send_keys(Keys.ARROW_DOWN)
    stop = page.switch_to.active_element
    assert stop.tag_name == "a" and stop.value_of_css_property("outline-style") == "solid"
    address = stop.get_attribute("href")
    stop.send_keys(Keys.ENTER)
    WebDriverWait(page, 30).until(lambda page: page.current_url == address)


def test_the_search_takes_numbers_whole_and_whole_words_first(page):
    texts = found(page, "table 2")
    assert all(text.startswith("Table 2 of") for text in texts[:2])
    assert not any(text.startswith(("Table 1 of", "Table 2.")) for text in texts)
    scores = "return find(arguments[0]).map((each) => [each.title, each.score])"
    for words, title in (("fedpgm", "FedPGM"), ("fedpg", "FedPGM"), ("install", "Library")):
        assert page.execute_script(scores, words)[0][0] == title
    assert page.execute_script(scores, " – ()") == []


def test_a_search_is_in_the_address_and_can_be_taken_back(page, site):
    count = len(found(page, "FedPGM"))
    page.find_element(By.ID, "words").send_keys(Keys.ENTER)  # Enter loads no other page
    assert page.current_url.endswith("index.html?q=FedPGM")
    page.get(page.current_url)
    assert len(page.find_elements(By.CSS_SELECTOR, "#hits a")) == count
    page.find_element(By.ID, "words").send_keys(Keys.ESCAPE)
    assert not page.find_element(By.ID, "hits").is_displayed()
    page.find_element(By.TAG_NAME, "h1").click()
    page.find_element(By.TAG_NAME, "body").send_keys("/")
    assert page.switch_to.active_element.get_attribute("id") == "words"
    assert found(page, "nosuchword") == []
    assert page.find_element(By.ID, "hits").text == "0 found"


def test_cards_are_filtered_by_their_state(page):
    select = Select(page.find_element(By.ID, "state"))
    cards = page.find_elements(By.CSS_SELECTOR, "#filter ~ .cards > li")
    select.select_by_visible_text("small scale")
    shown = [each for each in cards if each.is_displayed()]
    assert shown and all("small scale" in each.text for each in shown)
    told = page.find_element(By.CSS_SELECTOR, "#filter output").text
    assert told == f"{len(shown)} of {len(cards)} shown"
    select.select_by_index(0)
    assert all(each.is_displayed() for each in cards)


@pytest.mark.parametrize("key", [None, Keys.ENTER, Keys.SPACE])
def test_the_list_sorts_as_people_count_and_turns_round(page, site, key):
    page.get((site / "tables.html").as_uri())
    head = page.find_elements(By.CSS_SELECTOR, "#exhibits th button")[1]

    def press() -> None:
        head.click() if key is None else head.send_keys(key)

    press()
    labels = load_catalogue()["id"].str.partition("/")[2]
    order = sorted(
        labels, key=lambda label: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", label)]
    )
    assert sorted(column(page, 1)) == sorted(order)
    assert column(page, 1).index("fig2") < column(page, 1).index("fig10")
    assert directions(page) == ["none", "ascending", "none", "none", "none"]
    ascending = column(page, 1)
    press()
    assert column(page, 1)[0] == ascending[-1] and directions(page)[1] == "descending"


def test_the_first_stop_of_the_keyboard_leads_past_the_links(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    skip = page.switch_to.active_element
    assert skip.text == "Skip to the content" and skip.rect["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.tag_name == "main"


def test_a_link_to_a_folded_table_opens_it(page, site):
    page.get((site / "tables" / "maddock2024_tab2.html").as_uri() + "#maddock2024_tab2_verdicts")
    assert page.find_element(By.ID, "maddock2024_tab2_verdicts").get_attribute("open")


def test_night_is_dark_and_paper_has_everything_unfolded(page, site):
    page.get((site / "tables" / "maddock2024_tab2.html").as_uri())
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
    closed = "return document.querySelectorAll('details:not([open])').length"
    assert page.execute_script(closed) == 0
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script("return document.querySelectorAll('details[open]').length") == 0
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
