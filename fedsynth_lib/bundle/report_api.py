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

    Returns texts: `name`, `module`, `signature`, `summary`, `returns`, `raises`, `text` (what the
    docstring says besides), `place` (file and line) and `source`; and `parameters`: name, type,
    default and meaning of each. What nothing is known of is empty.
    """
    found = getattr(import_module(module), name)
    signature = inspect.signature(found)
    given = signature.parameters.values()
    bare = [each.replace(annotation=each.empty) for each in given]
    summary, _, rest = inspect.getdoc(found).partition("\n\n")
    body, mark, errors = rest.partition("Raises ")
    known = "|".join(signature.parameters) or "$^"
    text, *parts = re.split(rf"(?:^|(?<=[.)]\s))({known}): ", body, flags=re.MULTILINE)
    meanings = dict(zip(parts[::2], parts[1::2], strict=True))
    if parts:  # the last meaning ends where a line is no longer indented
        meanings[parts[-2]], *after = re.split(r"\n(?! )", parts[-1], maxsplit=1)
        text = " ".join([text, *after])
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
                tidy(meanings.get(each.name, "")),
            )
            for each in given
        ],
        "returns": written(signature.return_annotation),
        "raises": tidy(mark + errors),
        "text": tidy(text),
        "place": f"{found.__module__.replace('.', '/')}.py, line {start}",
        "source": "".join(lines),
    }


def written(annotation: Any) -> str:
    """Write a type as a reader writes it: without the modules that it is from."""
    if annotation in (inspect.Parameter.empty, None):
        return ""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation))


def tidy(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())
