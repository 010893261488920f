"""Text is UTF-8 whatever the locale, and what a program prints ends well."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import write

from fedsynth_lib.bundle.console import READER_GONE
from fedsynth_lib.release.draft import draft_path
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.schema import Column, Schema

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # no letter beyond ASCII


def sources() -> Iterator[tuple[str, str]]:
    """Name and code of each module of the library and each cell of the notebooks."""
    for path in sorted((ROOT / "fedsynth_lib").rglob("*.py")):
        yield path.name, path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield path.name, "".join(cell["source"])


def silent_about_encoding(call: ast.Call) -> bool:
    """Whether a call opens text in the encoding of the locale; ruff sees it only where it knows
    that the object is a path."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    words = {word.arg: word.value for word in call.keywords}
    if "encoding" in words:
        return False
    if name in ("run", "Popen", "check_output", "check_call"):
        return bool({"text", "universal_newlines"} & set(words))
    if name == "open":
        modes = {"r", "w", "a", "x", "r+", "w+", "a+"}
        given = [each.value for each in [*call.args, *words.values()] if hasattr(each, "value")]
        return bool(modes & {each for each in given if isinstance(each, str)})
    return name == "write_text" or (name == "read_text" and not call.args)


@pytest.mark.parametrize("code", ["p.read_text()", "p.open('w')", "subprocess.run(a, text=True)"])
def test_what_leaves_the_encoding_to_the_locale_is_seen(code):
    call = ast.parse(code).body[0].value
    assert silent_about_encoding(call)
    call.keywords.append(ast.keyword("encoding", ast.Constant("utf-8")))
    assert not silent_about_encoding(call)


def test_library_and_notebooks_name_the_encoding_of_each_text():
    found = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, code in sources()
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and silent_about_encoding(node)
    ]
    assert not found


# --- a locale that has ASCII only ----------------------------------------------------------------


def ask(*command: str, home: Path, **env: str) -> subprocess.CompletedProcess:
    """Run a module of the library under the locale C, its output as bytes."""
    env = {**os.environ, **ASCII, "PYTHONPATH": str(ROOT), "FEDSYNTH_HOME": str(home), **env}
    command = [sys.executable, "-P", "-m", *command]
    return subprocess.run(command, env=env, cwd=home, capture_output=True)


def test_a_table_in_any_script_is_drafted_and_made_under_an_ascii_locale(tmp_path):
    path = tmp_path / "people.csv"
    rows = "".join(f"{18 + row % 60},{('日本', 'Köln')[row % 2]}\n" for row in range(200))
    path.write_text(f"age,città\n{rows}", encoding="utf-8")
    said = ask("fedsynth_lib", "synth", "people.csv", home=tmp_path)
    assert said.returncode == 2 and b"Traceback" not in said.stderr
    assert "日本" in draft_path(path).read_text(encoding="utf-8")
    schema = Schema(
        (
            Column("age", "numeric", 18, 90, True, source="declared"),
            Column("città", "categorical", categories=("日本", "Köln"), source="declared"),
        )
    )
    path.with_suffix(".toml").write_text(Form.of(schema).to_toml(), encoding="utf-8")
    said = ask("fedsynth_lib", "synth", "people.csv", "--method", "independent", home=tmp_path)
    assert said.returncode == 0, said.stderr
    (made,) = tmp_path.rglob("people_rehearsal.csv")
    assert {"日本", "Köln"} <= set(made.read_text(encoding="utf-8").replace("\n", ",").split(","))


def test_a_letter_that_the_terminal_lacks_is_an_escape_and_no_error(tmp_path):
    said = ask("fedsynth_lib", "ledger", "--日本", home=tmp_path)
    assert said.returncode == 2 and b"Traceback" not in said.stderr
    code = "from fedsynth_lib.bundle.console import heard; heard(lambda: print('\\u03b5 is \\u65e5') or 0)"
    env = {**os.environ, **ASCII, "PYTHONPATH": str(ROOT)}
    said = subprocess.check_output([sys.executable, "-c", code], env=env)
    assert said == rb"\u03b5 is \u65e5" + b"\n"


def test_a_notebook_reads_utf_8_under_an_ascii_locale(tmp_path):
    home = tmp_path
    (home / "notebooks").mkdir()
    (home / "data").mkdir()
    for name in ("published", "results"):  # the report is of them
        (home / "data" / name).symlink_to(ROOT / "data" / name)
    (home / "notebooks" / "known.txt").write_bytes("ε ü 日".encode())
    write(home, "00_a", "assert open('known.txt').read() == 'ε ü 日'", "print('ε')")
    said = ask("fedsynth_lib.bundle.runner", home=home)
    assert said.returncode == 0, said.stdout + said.stderr


# --- whoever reads has enough ---------------------------------------------------------------------


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [
        ["fedsynth_lib.bundle.runner", "--list"],
        ["fedsynth_lib", "--help"],
        ["fedsynth_lib", "ledger"],
    ],
)
def test_a_reader_that_stops_ends_the_program_without_a_word(command, buffered):
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": buffered}
    command = [sys.executable, "-P", "-m", *command]
    try:
        said = subprocess.run(command, env=env, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert (said.returncode, said.stderr) == (READER_GONE, b"")
