"""The list of findings: how it is read, and that the one that is there is complete and leads
somewhere."""

import pandas as pd
import pytest

from fedsynth_lib.bundle import findings
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed.published import WORKS

TEXT = """# All

## one2020

A word ahead.

### Findings

#### It leaks by <!--=leak-->0.5<!--/-->
Two lines of
text.
- Evidence: [a table](../a.md),
  notebook 1
- Could also be: another key
- Changes a conclusion: yes, the guarantee

#### It does not
Text.
- Evidence: none
- Changes a conclusion: no

### Deviations

| what | why | where |
|---|---|---|
| x; theirs: y | `a \\| b` | [here](b.md) |

## two2021

### Choices

| what | why | where |
|---|---|---|
| z | seen | notebook 2 |
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "findings.md"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_findings_and_deviations_are_read_as_plain_text(written):
    path = written(TEXT)
    assert findings.findings(path).to_numpy().tolist() == [
        [
            "one2020",
            "It leaks by 0.5",
            "Two lines of text.",
            "a table, notebook 1",
            "another key",
            "yes, the guarantee",
        ],
        ["one2020", "It does not", "Text.", "none", "", "no"],
    ]
    assert findings.deviations(path).to_numpy().tolist() == [
        ["one2020", "Deviations", "x; theirs: y", "`a \\| b`", "here"],
        ["two2021", "Choices", "z", "seen", "notebook 2"],
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("- Evidence: none\n", "", "'It does not' has no evidence"),
        ("- Changes a conclusion: no\n", "", "has no changes a conclusion"),
        ("conclusion: no", "conclusion: perhaps", "start with yes, no, open"),
        ("Text.\n", "", "has no text"),
        ("| z | seen | notebook 2 |", "| z | seen |", "three entries"),
    ],
)
def test_what_is_incomplete_is_refused(written, old, new, said):
    path = written(TEXT.replace(old, new))
    with pytest.raises(BadInput, match=said):
        findings.findings(path)
        findings.deviations(path)


def test_the_list_has_all_works_and_no_finding_twice():
    found, ours = findings.findings(), findings.deviations()
    assert set(WORKS) <= set(found["work"]) and set(ours["work"]) == {*WORKS, "all methods"}
    assert not found["headline"].duplicated().any() and not ours["what"].duplicated().any()
    assert not found["headline"].str.endswith(".").any()


@pytest.mark.parametrize(
    ("kind", "listed"), [("findings", findings.findings), ("deviations", findings.deviations)]
)
def test_committed_tables_show_the_list_as_it_is(kind, listed):
    """Whoever edits the list runs notebook 90: `runner --only 90`."""
    for work, part in listed().groupby("work", sort=False):
        name = f"90_{kind}_{work.replace(' ', '_')}.csv"
        path = project_root() / "figures" / name
        shown = pd.read_csv(path, dtype=str, keep_default_na=False)
        said = part.drop(columns="work")
        assert shown.iloc[:, : said.shape[1]].to_numpy().tolist() == said.to_numpy().tolist(), name
