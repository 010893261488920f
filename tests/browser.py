"""A headless Chromium for the tests that are marked `browser`: load it with `pytest_plugins =
["browser"]`."""

import shutil
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

WHERE = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "chromium-driver": ("chromedriver",),
}


def programs() -> list[str]:
    """The paths of the browser and of its driver."""
    found = {
        package: next(filter(None, map(shutil.which, names)), None)
        for package, names in WHERE.items()
    }
    if missing := [package for package, path in found.items() if path is None]:
        pytest.fail(
            f"These tests drive a real browser: apt-get install -y {' '.join(missing)} (Debian).",
            pytrace=False,
        )
    return list(found.values())


class Browser(Chrome):
    """Chrome, with the three things that our tests ask of it."""

    def get(self, url: str) -> None:
        """Load a page to its end. On a busy machine the driver's own `get` has come back with a
        fifth of the links there."""
        super().get(url)
        whole = "return document.readyState === 'complete'"
        WebDriverWait(self, 60).until(lambda page: page.execute_script(whole))

    def resize(self, width: int, height: int = 900) -> None:
        """Give the page this many CSS pixels, also fewer than a window can have."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def complaints(self) -> list[str]:
        """What the console has said since it was last asked."""
        return [entry["message"] for entry in self.get_log("browser")]


@pytest.fixture(scope="module")
def reached() -> tuple[str, ...]:
    """The hosts that the browser reaches beside this machine: none, unless a file of tests has a
    fixture of this name that says otherwise."""
    return ()


@pytest.fixture(scope="module")
def browser(tmp_path_factory, reached) -> Iterator[Browser]:
    """One browser for each file of tests, which starts with an empty console."""
    binary, driver = programs()
    options = ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        "--no-sandbox",  # there is none for root in a container
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND, "
        + ", ".join(f"EXCLUDE {host}" for host in ("localhost", "127.0.0.1", *reached)),
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # named, hence not fetched
    browser = Browser(options=options, service=ChromeService(executable_path=driver))
    yield browser
    browser.quit()
