"""The list of findings and deviations, `data/published/findings.md`, as tables.

A work is a heading (`##`), a finding a heading below it (`####`): one line that says what was
found, a few sentences, and the items `- Evidence:`, `- Could also be:` (what else could explain it;
it may be left out) and `- Changes a conclusion:` (yes, no or open, with which). The item `- Shown
in the report:` names the part of the report's first page that quotes the finding, and its picture.
Deviations are tables: what, why, where.
"""

import re
from pathlib import Path

import pandas as pd

from fedsynth_lib.bundle.facts import MARKER
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root

ANSWERS = ("yes", "no", "open")
COLUMNS = ["work", "headline", "text", "evidence", "could also be", "changes a conclusion"]
MAY_LACK = "could also be"
DEVIATION_COLUMNS = ["work", "kind", "what", "why", "where"]
QUOTED = "shown in the report"
ITEMS = {f"- {name.capitalize()}:": name for name in (*COLUMNS[3:], QUOTED)}


def findings(path: Path | None = None, *, quoted: bool = False) -> pd.DataFrame:
    """Read the findings, in order, with COLUMNS as text without links and markers.

    With `quoted` there is a column QUOTED, too. Raises BadInput for an incomplete finding.
    """
    columns = [*COLUMNS, QUOTED] if quoted else COLUMNS
    found: list[dict[str, str]] = []
    for work, _, lines in _sections(path):
        current: dict[str, str] | None = None
        part = "text"
        for line in lines:
            if line.startswith("#### "):
                current, part = (
                    {"work": work, "headline": line[5:].strip()}
                    | dict.fromkeys((*COLUMNS[2:], QUOTED), ""),
                    "text",
                )
                found.append(current)
            elif current is not None:
                start = next((start for start in ITEMS if line.startswith(start)), "")
                part = ITEMS.get(start, part)
                current[part] = f"{current[part]} {line.removeprefix(start).strip()}".strip()
    table = pd.DataFrame(found, columns=columns)
    table[COLUMNS[1:]] = table[COLUMNS[1:]].map(plain)
    for line in table.to_dict("records"):
        _check(line)
    return table


def deviations(path: Path | None = None) -> pd.DataFrame:
    """Read what this bundle does otherwise than a work, with DEVIATION_COLUMNS.

    Column `kind` has the heading above the table.
    """
    found = []
    for work, kind, lines in _sections(path):
        rows = [
            line for line in lines if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line)
        ]
        for row in rows[1:]:  # the first is the head
            entries = [plain(entry.strip()) for entry in re.split(r"(?<!\\)\|", row)[1:-1]]
            if len(entries) != 3:
                raise BadInput(
                    f"findings.md, {work}: {entries[0]!r} needs three entries: what, why, where."
                )
            found.append([work, kind, *entries])
    return pd.DataFrame(found, columns=DEVIATION_COLUMNS)


def plain(text: str) -> str:
    """Return Markdown as a reader sees it.

    Values of facts lose their markers, and links lose their addresses.
    """
    text = MARKER.sub(lambda marker: marker["said"], text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _sections(path: Path | None) -> list[tuple[str, str, list[str]]]:
    """(work, kind, lines) for each heading of the third level."""
    path = path or project_root() / "data" / "published" / "findings.md"
    work, found = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            work = line[3:].strip()
        elif line.startswith("### "):
            found.append((work, line[4:].strip(), []))
        elif found and found[-1][0] == work:
            found[-1][2].append(line)
    return found


def _check(line: dict[str, str]) -> None:
    """Check that a finding has all its parts; raise BadInput where it lacks one."""
    where = f"findings.md, {line['work']}: the finding {line['headline']!r}"
    if empty := [name for name in COLUMNS if not line[name] and name != MAY_LACK]:
        raise BadInput(f"{where} has no {empty[0]}.")
    if re.split(r"\W", line["changes a conclusion"])[0] not in ANSWERS:
        raise BadInput(f"{where} changes a conclusion: start with {', '.join(ANSWERS)}.")
