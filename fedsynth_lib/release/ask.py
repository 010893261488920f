"""The questions of a draft, one by one: what its owner answers goes into the text of the schema.

An answer is a line as a schema has it, such as `high = 120`, so that whoever has answered can read
the file, and change it later.
"""

import html
import re
import tomllib
from collections.abc import Callable, Sized
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.runs.progress import watched
from fedsynth_lib.tables.form import form_from
from fedsynth_lib.tables.kinds import FITTING
from fedsynth_lib.tables.schema import parse_toml

if TYPE_CHECKING:
    from ipywidgets import VBox

HOW = (
    "{keep} keeps all as it is. A line such as low = 0; high = 120 changes entries, and kind = "
    '"identifier" the kind; - leaves out the column, or the rule; ? leaves the question open{open}.'
)
OF_TABLE = ("target", "unit", "most_rows")  # answers that go into [table]


class Question(NamedTuple):
    """What a draft asks about a column or a rule.

    place: of its part in the text. entries: the lines that it declares.
    """

    place: int
    name: str
    entries: list[str]
    text: str


def answered(text: str, hear: Callable[[str], str], say: Callable[[str], None]) -> str:
    """Return the text of a draft with the answers to its questions.

    hear: gives an answer, of what it is to show before it. say: shows a line.
    """
    parts = _parts(text)
    asked = _questions(parts)
    how = HOW.format(keep="Enter", open="")
    say(f"{_counted(asked)}. {how}" if asked else "The draft asks nothing.")
    for number, question in enumerate(asked, 1):
        say(f"\n{number}. {question.name}")
        say("\n".join(f"   {line[:100]}" for line in question.entries))
        say(question.text)
        while (answer := hear("> ").strip()) != "?":
            try:
                parts = _put(parts, question.place, answer)
            except BadInput as error:
                say(str(error))
                continue
            if answer in ("", "-"):
                break
            say("And? Enter, if that is all.")
    return "".join(parts)


def in_notebook(draft: Path, schema: Path) -> "VBox | None":
    """Ask the questions of a draft in a notebook.

    Where somebody runs the notebook, return controls, whose button writes the schema. Where nobody
    does, print the questions.
    """
    if watched():
        return controls(draft, schema)
    for question in _questions(_parts(draft.read_text(encoding="utf-8"))):
        print(f"{question.name}: {question.text}")
    return None


def controls(draft: Path, schema: Path) -> "VBox":
    """Give a line of input for each question of a draft, and a button that writes the schema.

    What an answer may be is as in `answered`; one that cannot be is told, and nothing is written.
    """
    import ipywidgets

    first = _parts(draft.read_text(encoding="utf-8"))
    boxes = [(question, ipywidgets.Text(value="?")) for question in _questions(first)]
    button, told = ipywidgets.Button(description="Write the schema"), ipywidgets.HTML()

    def write(_: object) -> None:
        parts, wrong = first, [f"{schema} is there already; move it away."] * schema.exists()
        for question, box in boxes:
            if box.value.strip() == "?":
                continue
            try:
                parts = _put(parts, question.place, box.value.strip())
                parts = _put(parts, question.place, "")  # it is answered
            except BadInput as error:
                wrong.append(f"{question.name}: {error}")
        if not wrong:
            write_atomically(schema, "".join(parts).encode(), private=True)
        told.value = html.escape(" ".join(wrong) or f"{schema} is written: run all cells again.")

    button.on_click(write)
    how = HOW.format(keep="An empty line", open=", as it is now")
    shown = [ipywidgets.HTML(html.escape(f"{_counted(boxes)}. {how}"))]
    for question, box in boxes:
        entries = html.escape("\n".join(question.entries))
        name, text = html.escape(question.name), html.escape(question.text)
        shown += [ipywidgets.HTML(f"<b>{name}</b><pre>{entries}</pre>{text}"), box]
    return ipywidgets.VBox([*shown, button, told])


def _counted(asked: Sized) -> str:
    return f"{len(asked)} question{'s' * (len(asked) != 1)}"


def _parts(text: str) -> list[str]:
    """Cut the text of a schema before each column and each rule."""
    return re.split(r"(?m)^(?=\[\[(?:column|rule)\]\]$)", text)


def _questions(parts: list[str]) -> list[Question]:
    found = []
    for place, part in enumerate(parts):
        if _value(part, "question"):
            said = next(iter(tomllib.loads(part).values()))[0]
            name = said.get("name") or f"rule {said.get('holds') or said.get('column')}"
            lines = (line for line in part.splitlines()[1:] if " = " in line)
            entries = [line for line in lines if not line.startswith("question")]
            found.append(Question(place, name, entries, said["question"]))
    return found


def _put(parts: list[str], place: int, answer: str) -> list[str]:
    """Return the parts with an answer; BadInput for one that makes no schema."""
    changed = list(parts)
    _change(changed, place, answer)
    form_from(parse_toml("".join(changed), "schema"), "schema")
    return changed


def _change(parts: list[str], place: int, answer: str) -> None:
    """Put an answer into the part that asks, or into [table]."""
    if answer == "-":
        name = _value(parts[place], "name")
        parts[place] = f"[[column]]\nname = {name}\nignore = true\n\n" if name else ""
        return
    if not answer:
        parts[place] = _with(parts[place], "question", "")
        return
    for entry in re.split(r";\s*(?=\w+ *=)", answer):
        key, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not re.fullmatch(r"\w+", key):
            raise BadInput(f"{entry!r} is no line of a schema: write an entry, such as high = 120.")
        where = 0 if key in OF_TABLE else place
        parts[where] = _with(parts[where], key, value)
        if key == "kind":
            for other, kinds in FITTING.items():
                if value.strip("\"'") not in kinds:
                    parts[place] = _with(parts[place], other, "")


def _value(part: str, key: str) -> str:
    """Return what an entry of a part says, as TOML; '' where it is not there."""
    found = re.search(rf"(?m)^{key} = (.*)$", part)
    return found[1] if found else ""


def _with(part: str, key: str, value: str) -> str:
    """Return the part with an entry changed, or one more before the empty line that ends it.

    Where the value is empty, the entry is left out.
    """
    line, old = f"{key} = {value}\n" if value else "", rf"(?m)^{key} = .*\n"
    if re.search(old, part) or not value:
        return re.sub(old, lambda _: line, part, count=1)
    head, *groups = part.partition("[rule.groups]")
    return f"{head.rstrip()}\n{line}\n{''.join(groups)}"
