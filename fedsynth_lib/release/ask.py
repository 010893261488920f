"""The questions of a draft, one by one: what its owner answers goes into the text of the schema.

An answer is a line as a schema has it, such as `high = 120`, so that whoever has answered can read
the file, and change it later.
"""

import re
import tomllib
from collections.abc import Callable

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.tables.form import form_from
from fedsynth_lib.tables.kinds import FITTING
from fedsynth_lib.tables.schema import parse_toml

HOW = (
    "Enter: keep it as it is. A line such as low = 0; high = 120 changes entries, and kind = "
    '"identifier" the kind; - leaves out the column, or the rule; ? leaves the question open.'
)
OF_TABLE = ("target", "unit", "most_rows")  # answers that go into [table]


def answered(text: str, hear: Callable[[str], str], say: Callable[[str], None]) -> str:
    """The text of a draft with the answers to its questions.

    hear: gives an answer, of what it is to show before it. say: shows a line.
    """
    parts = re.split(r"(?m)^(?=\[\[(?:column|rule)\]\]$)", text)
    asked = [place for place, part in enumerate(parts) if _value(part, "question")]
    say(f"{len(asked)} questions. {HOW}" if asked else "The draft asks nothing.")
    for number, place in enumerate(asked, 1):
        said = tomllib.loads(parts[place])
        shown = next(iter(said.values()))[0]
        name = shown.get("name") or f"rule {shown.get('holds') or shown.get('column')}"
        entries = (line for line in parts[place].splitlines()[1:] if " = " in line)
        say(f"\n{number}. {name}")
        say("\n".join(f"   {line[:100]}" for line in entries if not line.startswith("question")))
        say(shown["question"])
        while (answer := hear("> ").strip()) != "?":
            changed = list(parts)
            try:
                _change(changed, place, answer)
                form_from(parse_toml("".join(changed), "schema"), "schema")
            except BadInput as error:
                say(str(error))
                continue
            parts = changed
            if answer in ("", "-"):
                break
            say("And? Enter, if that is all.")
    return "".join(parts)


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
    """What an entry of a part says, as TOML; '' where it is not there."""
    found = re.search(rf"(?m)^{key} = (.*)$", part)
    return found[1] if found else ""


def _with(part: str, key: str, value: str) -> str:
    """The part with an entry changed, or one more before the empty line that ends it; without it
    where there is no value."""
    line, old = f"{key} = {value}\n" if value else "", rf"(?m)^{key} = .*\n"
    if re.search(old, part) or not value:
        return re.sub(old, lambda _: line, part, count=1)
    head, *groups = part.partition("[rule.groups]")
    return f"{head.rstrip()}\n{line}\n{''.join(groups)}"
