"""The library's main names for the report, read from signatures and docstrings."""

import inspect
import re
from functools import cache
from importlib import import_module
from typing import Any

# title of a page -> module and the names that notebooks, README or a script of one's own start from
ROOMS: dict[str, dict[str, str]] = {
    "Tables": {
        "tables.load": "load_table available split Table",
        "tables.schema": "Schema Column",
        "tables.partition": "split_clients heterogeneity",
        "tables.encode": "EqualWidthBins",
    },
    "Privacy": {
        "core.contract": "Privacy Charge stream",
        "core.accounting": "epsilon_of calibrate check_budget",
        "core.statement": "statement_table",
    },
    "Methods and federation": {
        "core.contract": "Method Client Update Run",
        "methods.registry": "register from_file",
        "federation.settings": "federated central local noise_for",
        "federation.rounds": "run_rounds",
    },
    "Measures and audits": {
        "metrics.evaluation": "evaluate",
        "metrics.scores": "scores",
        "metrics.registry": "Measure",
        "audit": "measured",
    },
    "Your own table": {
        "release.frames": "draft synthesize check Statement",
        "release.saved": "read SavedModel",
        "release.analyses": "compare",
        "release.your_table": "prepare carry_out",
        "release.bench": "bench",
    },
    "Results and verdicts": {
        "works.exhibit": "open_exhibit",
        "works": "load",
        "runs.grid": "run_grid load_rows",
        "runs.rows": "data_of with_params published_size",
        "printed.published": "load_values compare summary",
        "printed.layouts": "comparison_table",
        "bundle.headline": "gathered",
        "verdicts.judges": "save_claims judged",
        "verdicts.significance": "tested",
    },
    "Figures": {
        "figures.style": "use_style look Look",
        "figures.save": "Saver",
        "figures.beside": "beside_print",
        "figures.sweep": "sweep",
        "figures.bars": "bars",
        "figures.heatmap": "heatmap",
        "figures.distributions": "distributions",
        "figures.points": "points lines boxes",
        "figures.special": "against_published",
    },
}

# a heading of numpydoc
SECTION = re.compile(r"(?m)^([A-Z][\w ]*)\n-{3,}\n")


@cache
def names(room: str) -> list[dict[str, Any]]:
    """Return the names of a room of ROOMS, in their order."""
    return [
        documented(f"fedsynth_lib.{module}", name)
        for module, listed in ROOMS[room].items()
        for name in listed.split()
    ]


def documented(module: str, name: str) -> dict[str, Any]:
    """Read signature, docstring and source of a name of a module.

    Returns texts: `name`, `module`, `signature`, `summary`, `returns` (the type), `returned` (what
    it is), `raises`, `text` (what the docstring says besides), `examples`, `place` (file and line)
    and `source`; and `parameters`: name, type, default and meaning of each. What nothing is known
    of is empty. Parameters are described in the sections of numpydoc, or as `name: meaning`.
    """
    found = getattr(import_module(module), name)
    signature = inspect.signature(found)
    given = [
        each if each.default is each.empty else each.replace(default=Default(each.default))
        for each in signature.parameters.values()
    ]
    bare = [each.replace(annotation=each.empty) for each in given]
    before, *sections = SECTION.split(inspect.getdoc(found))
    parts_of = dict(zip(sections[::2], sections[1::2], strict=True))
    summary, _, rest = before.partition("\n\n")
    rest, prompt, shown = rest.partition("\n>>> ")
    known = "|".join(signature.parameters) or "$^"
    listed = rf"(?:{known})(?:, (?:{known}))*:\s"
    raises = re.search(rf"(?s)Raises .*?(?=\n{listed}|\Z)", rest)
    errors = raises[0] if raises else ""
    head = rf"(?:^|(?<=[.)]\s))({listed})"
    text, *parts = re.split(head, rest.replace(errors, ""), flags=re.MULTILINE)
    meanings = list(zip(parts[::2], parts[1::2], strict=True))
    if parts:  # the last meaning ends with a sentence, where a line is no longer indented
        last, *after = re.split(r"(?<=[.)])\n(?! )", parts[-1], maxsplit=1)
        meanings[-1], text = (parts[-2], last), " ".join([text, *after])
    for title in ("Attributes", "Parameters"):
        meanings += described(parts_of.pop(title, ""))
    means = {each: meaning for names, meaning in meanings for each in re.findall(r"\w+", names)}
    returned = described(parts_of.pop("Returns", ""))
    several = len(returned) > 1
    raised = [f"{error}: {meaning}" for error, meaning in described(parts_of.pop("Raises", ""))]
    examples = parts_of.pop("Examples", prompt + shown).strip()
    others = [
        f"{title}: {name}{': ' * bool(meaning)}{meaning}"
        for title, part in parts_of.items()
        for name, meaning in described(part)
    ]
    lines, start = inspect.getsourcelines(found)
    return {
        "name": name,
        "module": module,
        "signature": f"{name}{inspect.Signature(bare)}",
        "summary": tidy(summary),
        "parameters": [
            (
                each.name,
                written(each.annotation),
                "" if each.default is each.empty else repr(each.default),
                tidy(means.get(each.name, "")),
            )
            for each in given
        ],
        "returns": written(signature.return_annotation),
        "returned": tidy(
            " ".join(f"`{kind}`: {what}" if several else what for kind, what in returned)
        ),
        "raises": tidy(" ".join([errors, *raised])),
        "text": tidy(" ".join([text, *others])),
        "examples": examples,
        "place": f"{found.__module__.replace('.', '/')}.py, line {start}",
        "source": "".join(lines),
    }


class Default:
    """A default value that shows as a reader writes it: a function by its name, if it has one."""

    def __init__(self, value: Any) -> None:
        self.text = repr(value)
        if inspect.isroutine(value):
            self.text = value.__name__ if value.__name__.isidentifier() else "a function"

    def __repr__(self) -> str:
        """Return the text."""
        return self.text


def described(section: str) -> list[tuple[str, str]]:
    """Split a section of numpydoc into its entries: the names of a line, and what is below it."""
    heads = re.split(r"(?m)^(\S.*)$", section)[1:]
    return [
        (name.partition(" : ")[0], meaning.strip())
        for name, meaning in zip(heads[::2], heads[1::2], strict=True)
    ]


def written(annotation: Any) -> str:
    """Write a type as a reader writes it: without the modules that it is from."""
    if annotation in (inspect.Parameter.empty, None):
        return ""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation))


def tidy(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())
