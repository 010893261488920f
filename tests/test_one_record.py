"""One odd record in the file: the released files have the same form with it and without it, and the
command ends alike. So neither says whether the record is there."""

import csv
import gzip
import io
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import promises
import pytest
from pyarrow import parquet

from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.federation.settings import federated
from fedsynth_lib.methods import METHODS
from fedsynth_lib.release.deploy.study import SCHEMA, load_site
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import FileColumn

ROWS = 400
CODES = tuple(f"c{number}" for number in range(128))
FORM = Form(
    (
        FileColumn("age", "numeric", 0, 120, True, missing=("",), source="code book"),
        FileColumn("dose", "numeric", 0, 50, decimals=1, source="code book"),
        FileColumn("code", "categorical", categories=CODES, source="code book"),
        FileColumn("day", "date", "2020-01-01", "2024-12-31", source="code book"),
        FileColumn("income", "numeric", 0, 1e6, True, scale="log", source="code book"),
        FileColumn("lab", "numeric", 0, 9, decimals=2, missing=("",), source="code book"),
        FileColumn("ill", "categorical", categories=("no", "yes"), source="code book"),
    ),
    "ill",
    ("note",),
)
# what the record has that no other one has
ODD = {
    "a gap": {"age": None},
    "a float among whole numbers": {"age": 25.5},
    "a number out of range": {"age": 200},
    "an extreme value": {"income": 9_000_000_000},
    "an infinite number": {"dose": float("inf")},
    "more decimals": {"dose": 25.123},
    "a day out of range": {"day": "2030-05-03"},
    "the 128th category": {"code": "c127"},
    "the only value of its column": {"lab": 1.25},
    "another line end in a column that is left out": {"note": "a\r\nb"},
    "a byte that is no text in a column that is left out": {"note": "a\udcff"},
    "a key that no other one has": {"later": "yes"},
}


def people(*, lab: float | None = 2.5) -> list[dict]:
    """In 127 of 128 categories. lab: of everybody; None leaves the column empty."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1800, ROWS), "D")
    return [
        {
            "age": int(rng.integers(20, 90)),
            "dose": int(rng.integers(0, 80)) / 2,
            "code": CODES[row % 127],
            "day": str(days[row].date()),
            "income": int(rng.integers(0, 90_000)),
            "lab": lab,
            "note": "well",
            "ill": ("no", "yes")[row % 2],
        }
        for row in range(ROWS)
    ]


def text(content: str) -> bytes:
    return content.encode("utf-8", "surrogateescape")


def as_csv(rows) -> bytes:
    sink = io.StringIO(newline="")
    lines = csv.DictWriter(sink, list(rows[-1]), lineterminator="\n", extrasaction="ignore")
    lines.writeheader()
    lines.writerows(rows)
    return text(sink.getvalue().replace("inf", "1e400"))


def as_parquet(rows) -> bytes:
    """As pandas writes it, whose types follow from the rows."""
    frame = pd.DataFrame(rows)[list(rows[-1])].assign(note=[text(row["note"]) for row in rows])
    exact = (frame["dose"].astype("float32") == frame["dose"]).all()
    frame["dose"] = frame["dose"].astype("float32" if exact else "float64")
    return frame.astype({"code": "category", "ill": "category"}).to_parquet(index=False)


WRITERS = {
    "csv": as_csv,
    "csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "parquet": as_parquet,
}


def release(folder, ending, rows):
    """The exit status, the released files by their endings, what was said."""
    folder.mkdir()
    (folder / f"t.{ending}").write_bytes(WRITERS[ending](rows))
    (folder / "t.toml").write_text(FORM.to_toml(), encoding="utf-8")
    asked = ["synth", str(folder / f"t.{ending}"), "--schema", str(folder / "t.toml")]
    asked += ["--release", "--declared-rows", str(ROWS), "--method", "independent"]
    asked += ["--epsilon", "1", "--no-scores", "--population", folder.name]
    status = commands.main([*asked, "--out", str(folder / "out")])
    stem = f"{f't.{ending}'.rpartition('.')[0]}_release1"
    out = folder / "out"
    return status, {p.name.removeprefix(stem): p.read_bytes() for p in out.glob("*")}


def form_of(ending: str, content: bytes):
    """All but the values; a gap is a value, for noise decides whether there is one."""
    if ending == "parquet":
        table = parquet.read_table(io.BytesIO(content))
        return table.schema, len(table)
    content = gzip.decompress(content) if ending.endswith("gz") else content
    lines = content.decode().split("\n")
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    return lines[0], b"\r" in content, len(rows), {n: shape({r[n] for r in rows}) for n in rows[0]}


def shape(texts: set[str]) -> set[str]:
    return {re.sub(r"\d+", "9", each) for each in texts} - {"", "None"}


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """(ending, lab) -> what is released without the record."""
    found = {}

    def made(*case):
        if case not in found:
            folder = tmp_path_factory.mktemp("w") / "without"
            found[case] = release(folder, case[0], people(lab=case[1]))
        return found[case]

    return made


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("ending", WRITERS)
def test_a_release_does_not_show_one_odd_record(ending, odd, without, home, capfd):
    lab = None if "lab" in ODD[odd] else 2.5
    status, files = without(ending, lab)
    assert status == 0 and len(files) == 4
    capfd.readouterr()
    record = people(lab=lab)[7] | ODD[odd]
    there, with_it = release(home / "with", ending, [record, *people(lab=lab)])
    said = capfd.readouterr()
    assert there == status and with_it.keys() == files.keys(), said
    rows = next(end for end in files if "privacy" not in end)
    assert form_of(ending, with_it[rows]) == form_of(ending, files[rows])
    assert with_it["_privacy.md"] == files["_privacy.md"]
    for value in ("200", "25.5", "9000000000", "25.123", "2030-05-03"):
        assert value not in (said.err + said.out).replace(str(home), "")


def test_the_owner_is_told_which_rows_were_moved_and_no_value(home, capfd):
    rows = [row | {"age": 201} if place in (3, 9) else row for place, row in enumerate(people())]
    assert release(home / "with", "csv", rows)[0] == 0
    said = capfd.readouterr().err
    told = (
        "column 'age' holds a value outside the declared range 0 to 120 (rows 4, 10), which counts"
    )
    assert told in said and "201" not in said


@pytest.mark.parametrize("wrong", [{"ill": "maybe"}, {"dose": None}, {"day": "1.5.2020"}])
def test_what_cannot_be_moved_ends_a_release_before_it_is_begun(wrong, home, capfd):
    """The statement says so: that a run takes place is not protected."""
    status, files = release(home / "without", "csv", people())
    words = b"whether the run takes place: a row with an unknown category, with a missing value"
    assert status == 0 and words in files["_privacy.md"]
    capfd.readouterr()
    assert release(home / "with", "csv", [people()[0] | wrong, *people()]) == (2, {})
    said = capfd.readouterr().err
    (value,) = wrong.values()
    assert "(row 1)" in said or "'dose' (1)" in said
    assert value is None or value not in said
    assert commands.main(["ledger", "with"]) == 0
    assert "0 releases" in capfd.readouterr().out


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_broken_line_ends_a_release_before_it_is_begun_and_the_statement_says_so(
    ending, home, capfd, monkeypatch
):
    status, files = release(home / "without", ending, people())
    words = b"so does a line of text with more fields than there are columns, or that is no object"
    assert status == 0 and words in files["_privacy.md"]
    capfd.readouterr()
    written = as_csv(people()) + b"a,b,c,d,e,f,g,h,i\n"
    broken = gzip.compress(written) if ending.endswith("gz") else written
    monkeypatch.setitem(WRITERS, ending, lambda rows: broken)
    assert release(home / "with", ending, people()) == (2, {})
    assert "line 402 has 9 fields, and the lines before it have 8" in capfd.readouterr().err
    assert commands.main(["ledger", "with"]) == 0
    assert "0 releases" in capfd.readouterr().out


# --- how many rows there are ---------------------------------------------------------------------


@pytest.mark.parametrize("options", [["--declared-rows", "20"], []], ids=["declared", "counted"])
def test_a_release_does_not_hang_on_the_true_number_of_rows(options, home, capfd):
    """19 rows or 20, of which a client may have none: what is declared, or counted, decides."""
    said = []
    for number in (1, 19, 20):
        folder = home / f"with{number}"
        folder.mkdir()
        (folder / "t.csv").write_bytes(as_csv(people()[:number]))
        (folder / "t.toml").write_text(FORM.to_toml(), encoding="utf-8")
        asked = ["synth", str(folder / "t.csv"), "--release", *options, "--clients", "9"]
        asked += ["--method", "independent", "--epsilon", "2", "--delta", "1e-9", "--no-scores"]
        status = commands.main([*asked, "--population", folder.name, "--out", str(folder / "out")])
        said.append((status, len(list((folder / "out").glob("t_release1*")))))
    # counted at a fiftieth of epsilon, such a table has too few rows in any case
    assert said == [(0, 4)] * 3 if options else all(each in ((0, 4), (2, 0)) for each in said)
    assert "too few to set some aside" not in capfd.readouterr().err


def test_too_few_declared_rows_are_refused_before_a_release_is_begun(home, capfd):
    (home / "t.csv").write_bytes(as_csv(people()))
    (home / "t.toml").write_text(FORM.to_toml(), encoding="utf-8")
    asked = ["synth", str(home / "t.csv"), "--release", "--declared-rows", "19"]
    assert commands.main([*asked, "--out", str(home)]) == 2
    assert "19 rows were declared, too few to learn from" in capfd.readouterr().err
    assert commands.main(["ledger", "t"]) == 0 and "0 releases" in capfd.readouterr().out


def test_a_site_without_rows_takes_part_in_a_release(home):
    """Its only record would decide."""
    rows = [row | {"ill": "no"} for row in people()]
    for number, more in enumerate(([], [people()[1]])):
        (home / f"t{number}.csv").write_bytes(as_csv([*rows, *more]))
        (home / f"t{number}.toml").write_text(FORM.to_toml(), encoding="utf-8")
        asked = [
            "synth",
            str(home / f"t{number}.csv"),
            "--release",
            "--no-scores",
            "--sites",
            "ill",
        ]
        asked += ["--declared-rows", "390", "--declared-rows", "10", "--epsilon", "1"]
        asked += ["--method", "independent", "--out", str(home)]
        assert commands.main(asked) == 0


@pytest.mark.parametrize("key", [k for k, m in METHODS.items() if promises.adds_noise(m)])
def test_every_private_method_takes_a_client_without_rows(key, table):
    method, parts = METHODS[key], [np.arange(30), np.array([], dtype=int)]
    options = {"config": promises.everyone(method), "privacy": promises.budget(method, 3.0)}
    run = federated(method, table, parts, sizes=[40, 40], seed=1, **options)
    assert len(run.synthetic) == 80
    with pytest.raises(BadInput, match="client 1 has no rows"):
        federated(method, table, parts, **options)


# --- a site of a study ---------------------------------------------------------------------------


def test_a_site_moves_numbers_into_their_range_too(tmp_path):
    (tmp_path / "north.csv").write_bytes(as_csv([people()[0] | {"age": 200}, *people()]))
    (tmp_path / SCHEMA).write_text(FORM.to_toml(), encoding="utf-8")
    site = SimpleNamespace(rows=ROWS)
    study = SimpleNamespace(folder=tmp_path, sites=[site], index_of=lambda name: 0)
    table = load_site(study, "north", tmp_path / "north.csv")
    assert table.frame["age"].iloc[0] == 120 and len(table.moved) == 1
