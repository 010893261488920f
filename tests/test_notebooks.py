"""The anatomy of the notebooks, read without running them; .ci/run executes them."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from fedsynth_lib.bundle.notebooks import ANY, read_notebook, read_value
from fedsynth_lib.runs.rows import PROFILES

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
CHAPTERS = [path for path in PATHS if "20" <= path.stem[:2] < "80"]

every_notebook = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


def code(path: Path) -> list[str]:
    """The sources of the code cells."""
    return [
        cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
    ]


def test_the_way_in_is_there_and_numbers_are_unique():
    assert "00_start_here" in [path.stem for path in PATHS]
    assert all(re.fullmatch(r"\d\d_\w+", path.stem) for path in PATHS)
    numbers = [path.stem[:2] for path in PATHS]
    assert len(numbers) == len(set(numbers))


@every_notebook
def test_it_is_valid_and_its_outputs_are_stripped(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


@every_notebook
def test_it_opens_with_a_title_and_has_one_parameters_cell(path):
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    tagged = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1 and tagged[0] is next(
        cell for cell in cells if cell.cell_type == "code"
    )
    # a chapter shows its full-size results, a lesson computes small and live
    assert re.match(r'profile = "(quick|paper)"', tagged[0].source)


@every_notebook
def test_its_parameters_are_literals_that_fit_their_own_comments(path):
    for parameter in read_notebook(path).parameters.values():
        assert parameter.default is not ANY, (
            f"{parameter.name} is computed: do that in a later cell"
        )
        assert read_value(repr(parameter.default), parameter, path.stem) == parameter.default
    assert read_notebook(path).parameters["profile"].choices == list(PROFILES)


@every_notebook
def test_its_metadata_tell_minutes_exhibits_and_needs(path):
    notebook = read_notebook(path)
    assert set(notebook.minutes) == set(PROFILES) and all(
        minutes > 0 for minutes in notebook.minutes.values()
    )
    # without grids there is nothing to start from
    assert (notebook.regenerate is not None) == bool(notebook.grids)
    assert notebook.regenerate is None or 0 < notebook.regenerate <= notebook.minutes["quick"]
    assert all(re.fullmatch(r"\w+/\S+", exhibit) for exhibit in notebook.exhibits)
    earlier = [other.stem for other in PATHS if other < path]
    assert set(notebook.needs) <= set(earlier)


@pytest.mark.parametrize("path", CHAPTERS, ids=[path.stem for path in CHAPTERS])
def test_a_chapter_takes_data_sets_and_a_budget_or_says_why_not(path):
    source, given = code(path)[0], read_notebook(path).parameters
    for names in (("datasets",), ("epsilon", "epsilons")):
        reason = rf"^# .*\bno {names[0]}\b.*: \w"
        assert given.keys() & {*names} or re.search(reason, source, re.MULTILINE), names


@pytest.mark.parametrize("path", CHAPTERS, ids=[path.stem for path in CHAPTERS])
def test_the_first_screen_of_a_chapter_has_its_first_result(path):
    """Only folded code is between the opening and the first table or picture, and few words."""
    words = 0
    for cell in nbformat.read(path, as_version=4).cells[2:]:
        if cell.cell_type == "markdown":
            words += len(cell.source.split())
            continue
        assert cell.metadata.get("jupyter") == {"source_hidden": True}, cell.id
        last = ast.parse(cell.source).body[-1]  # what it shows
        shows = ast.unparse(last)
        if re.search(r"\b(display|save\w*\.\w+|table|figure|save_comparison)\(|saved\[", shows):
            break
        assert not isinstance(last, ast.Expr), shows  # the settings come at the end
    assert words < 90


@every_notebook
def test_it_tells_a_story_and_leaves_the_work_to_the_library(path):
    sources = [TransformerManager().transform_cell(source) for source in code(path)]
    defined = [
        node.name
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    assert not defined


@every_notebook
def test_it_installs_nothing_and_names_no_place_of_one_machine(path):
    for source in code(path):
        assert not re.search(
            r"^\s*!|\b(pip|conda|mamba) "
            r"install\b|%pip|%conda|get_ipython",
            source,
            re.MULTILINE,
        )
        assert not re.search(r"\bsys\.path\b|%autoreload|\bglobals\(\)", source)
        assert not re.search(r"""["'](/home|/root|/tmp|/work|/Users|[A-Z]:\\)""", source)


@every_notebook
def test_its_grids_can_be_forgotten_and_heed_jobs(path):
    """`./run_all.sh --fresh` reads the grids' names off the calls."""
    notebook = read_notebook(path)
    calls = [
        node
        for source in code(path)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
    ]
    names = [ast.unparse(call.func) for call in calls]
    ways = ("run_grid", ".grid", "open_exhibit")
    assert len(notebook.grids) == sum(name.endswith(ways) for name in names)
    assert "jobs" in notebook.parameters or not notebook.grids
