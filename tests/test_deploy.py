"""A study of three sites: what they agree on, who is refused, and the real processes of all four
parties, with TLS and keys, against the run in process."""

import ast
import json
import os
import re
import shutil
import stat
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from cryptography import x509
from flwr.app import ConfigRecord, Context, Message, RecordDict
from sites import (
    ROWS,
    Forger,
    carried_out,
    copy,
    evaluated_in_one_process,
    in_one_process,
    make,
    places_of,
    rows_of,
    same_figures,
    study_in,
)

from fedsynth_lib.bundle import commands
from fedsynth_lib.core.contract import BadInput, BadRows, Privacy
from fedsynth_lib.core.ledger import Refused, open_ledger
from fedsynth_lib.core.statement import server_of
from fedsynth_lib.core.store import CODE
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.federation.answers import BadAnswer
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.release import fitting, private_config
from fedsynth_lib.release import saved
from fedsynth_lib.release.deploy import (
    apps,
    child,
    keys,
    processes,
    results,
    server,
    site,
)
from fedsynth_lib.release.deploy import study as studies
from fedsynth_lib.release.deploy.init import parsed_settings, parsed_site
from fedsynth_lib.release.deploy.place import Own
from fedsynth_lib.release.deploy.study import Site, Study, differences, read_study


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The folder of a study at rest; nobody changes it."""
    made = tmp_path_factory.mktemp("study")
    make(made)
    return made


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """A test's own copy, as sites keep their ledgers in it."""
    return Path(shutil.copytree(made, tmp_path / "parties"))


@pytest.fixture
def study(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    return read_study(folder / "study")


# --- what all agree on ----------------------------------------------------------------------------


def changed(folder, tmp_path, *pairs):
    """The study's folder with some texts of study.toml replaced."""
    package = copy(folder, "study/hearts", str(tmp_path / "changed"))
    path = package / "study.toml"
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return package


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilon = 1.0", "", "the key 'epsilon' is missing"),
        ("epsilon = 1.0", "epsilon = '1'", "epsilon is '1': it should be a valid number"),
        ("epsilon = 1.0", "epsilon = true", "epsilon is True: it should be a valid number"),
        ("epsilon = 1.0", "epsilom = 1.0", "unknown key 'epsilom' (did you mean 'epsilon'?)"),
        ('"independent"', '"independant"', "(did you mean 'independent'?)"),
        ("rows = 120", "rows = 1", "site 'west' has rows = 1; a site needs 2 rows"),
        ("rows = 120", "rows = 120\nplace = 1", "site 3: unknown key 'place'"),
        ('name = "west"', 'name = "north"', "with a name of its own"),
        ("minimum_group = 2", "minimum_group = 3", "minimum_group is 3; give 1 to 2"),
        ("absent = 1", "absent = 2", "minimum_group is 2; give 1 to 1"),
        ("seed = 5", "seed = -1", "seed is -1"),
        (":9443", "", "write host:port"),
        ("ecdsa-sha2-nistp384 ", "ssh-rsa ", "no ECDSA key in OpenSSH's form"),
        ("[config]", "[config]\nbinz = 3", "has no setting 'binz' (did you mean 'bins'?)"),
        ("[config]", "[config", "not valid TOML"),
        ('"independent"', '"fedbn"', "releases without noise: best network of the client's search"),
    ],
)
def test_a_study_that_cannot_be_is_refused_in_a_sentence(folder, tmp_path, old, new, said):
    package = changed(folder, tmp_path, (old, new))
    with pytest.raises(BadInput) as refused:
        studies.check_plan(read_study(package))
    assert said in str(refused.value) and str(refused.value).count("\n") <= 3


def test_a_release_needs_keys(folder, tmp_path):
    text = (folder / "study/hearts/study.toml").read_text()
    key = re.search(r'\nkey = "[^"]*"', text)[0]
    with pytest.raises(BadInput, match="a release needs ca and the key of every site"):
        read_study(changed(folder, tmp_path, (key, ""), ("seed = 5", "seed = 5\nrelease = true")))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BadRows("age is 'Mrs Smith'", "column 'age'"), "BadRows: column 'age'"),
        (OSError("Mrs Smith.csv: no room"), flower.UNANSWERED),
    ],
)
def test_a_file_that_does_not_fit_is_told_without_a_value(error, said):
    """Also where Flower's own SuperNode runs the app, which sends the text of what it raises."""

    def find(context):
        raise error

    app = apps.SiteApp(find)
    context = flower.LocalGrid(app, 1)._contexts[1]
    with pytest.raises(Refused) as refused:
        app(Message(RecordDict(), message_type=flower.WHO, dst_node_id=1), context)
    assert str(refused.value) == said and refused.value.__cause__ is error


def test_what_differs_is_named(study):
    ours, again = study.terms(), read_study(study.folder)
    theirs = again.terms()
    assert differences(theirs, ours) == [] and again.digest == study.digest
    theirs["column 'age'"]["high"] = 90.0
    theirs["epsilon"] = 3.0
    theirs["code"] = "fedsynth 0"
    first, second, third = differences(theirs, ours)
    assert first == "column 'age' has high = 100 here and 90.0 at the server"
    assert second == "epsilon is 1.0 here and 3.0 at the server"
    assert third.startswith("code is ") and third.endswith('and "fedsynth 0" at the server')
    del theirs["column 'smoker'"]
    assert "column 'smoker' is in one of the two schemas alone" in differences(theirs, ours)


OTHERS = {  # another value of each field of a study
    "name": "lungs",
    "method": "fedpgm",
    "epsilon": 1.5,
    "delta": 1e-7,
    "colluding": 1,
    "absent": 0,
    "minimum_group": 1,
    "release": True,
    "seed": 6,
    "counted_epsilon": 0.1,
    "holdout": 0.2,
    "evaluation_epsilon": 1.0,
    "other_people": False,
    "synthetic_rows": 50,
    "server": "localhost:9444",
    "ca": "",
    "timeout": 30.0,
    "config": {"bins": 9},
}
OF_SITE = {"name": "east", "rows": 301, "key": "", "publishes": True}


@pytest.mark.parametrize("name", [each.name for each in fields(Study) if each.name != "folder"])
def test_every_field_of_a_study_is_in_its_digest(study, name):
    """But where its folder is."""
    study = replace(study, holdout=0.3)  # which an evaluation needs
    if name != "sites":
        assert replace(study, **{name: OTHERS[name]}).digest != study.digest
        return
    first, *others = study.sites
    assert OF_SITE.keys() == {each.name for each in fields(Site)}
    for entry, value in OF_SITE.items():
        other = replace(study, sites=(replace(first, **{entry: value}), *others))
        assert other.digest != study.digest, entry
    assert replace(study, sites=(*others, first)).digest != study.digest


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("schema.toml", "[table]", '[reader]\nseparator = ";"\n\n[table]', "reader is "),
        ("schema.toml", 'target = "sick"', 'target = "smoker"', "target is "),
        ("server_app.py", "apps.server_app(", "print(), apps.server_app(", "apps is "),
        ("client_app.py", "apps.client_app(", "print(), apps.client_app(", "apps is "),
        ("study.toml", "minimum_group = 2", "minimum_group = 1", "minimum_group is 1 here"),
        ("study.toml", "timeout = ", "timeout = 1", "timeout is "),
    ],
)
def test_what_decides_how_a_study_runs_is_compared_and_named(
    folder, study, tmp_path, file, old, new, named
):
    package = copy(folder, "study/hearts", str(tmp_path / "changed"))
    text = (package / file).read_text()
    assert old in text
    (package / file).write_text(text.replace(old, new))
    other = read_study(package)
    assert other.digest != study.digest
    (difference,) = differences(study.terms(), other.terms())
    assert difference.startswith(named)


def test_where_a_column_is_left_out_is_compared(folder, study, tmp_path):
    """Without a header its place says which column is which."""
    left_out = '[[column]]\nname = "note"\nignore = true\n\n'
    digests = set()
    for before in ("age", "smoker"):
        package = copy(folder, "study/hearts", str(tmp_path / before))
        text = (package / "schema.toml").read_text()
        column = f'[[column]]\nname = "{before}"'
        (package / "schema.toml").write_text(text.replace(column, left_out + column))
        digests.add(read_study(package).digest)
    assert len(digests) == 2


def test_a_digest_is_of_the_code_that_a_study_runs(tmp_path):
    ours = Path(shutil.copytree(CODE / "fedsynth_lib", tmp_path / "fedsynth_lib"))
    found = studies.code_digest(tmp_path)
    assert found == studies.code_digest()
    for path in (
        *("figures/bars.py", "verdicts/vocabulary.py", "bundle/commands.py", "works/protocol.py"),
        *("teaching/lessons.py", "metrics/registry.py", "printed/published.py"),
    ):
        with open(ours / path, "a", encoding="utf-8") as file:
            file.write("# a typo less\n")
        assert studies.code_digest.__wrapped__(tmp_path) == found, path
    for path in (
        *("methods/marginals/fedpgm.py", "core/accounting.py", "federation/flower.py"),
        *("tables/encode.py", "release/deploy/masks.py", "release/deploy/evaluation.py"),
        *("release/your_table.py", "__init__.py", "methods/variants.toml"),
    ):
        content = (ours / path).read_bytes()
        (ours / path).write_bytes(content + b"# another line\n")
        assert studies.code_digest.__wrapped__(tmp_path) != found, path
        (ours / path).write_bytes(content.replace(b"\n", b"\r\n"))
        assert studies.code_digest.__wrapped__(tmp_path) == found, path
        (ours / path).write_bytes(content)


def imported(path: Path) -> set[Path]:
    """The files of the library that a file imports, early or late."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    places = [CODE / name.replace(".", "/") for name in names if name.startswith("fedsynth_lib.")]
    return {place.with_suffix(".py") for place in places if place.with_suffix(".py").is_file()}


@pytest.mark.slow
def test_a_study_runs_no_code_that_its_digest_leaves_out():
    """But what scores and draws for one owner alone, and names folders of results."""
    library = CODE / "fedsynth_lib"
    covered = {path for room in studies.STUDIED for path in (library / room).rglob("*.py")}
    covered |= {library / name for name in studies.STUDIED_TOO}
    outside = set().union(*map(imported, covered)) - covered
    names = {path.relative_to(library).as_posix() for path in outside}
    assert {name for name in names if not name.startswith(("figures/", "metrics/"))} == {
        "runs/rows.py"
    }
    by_room = covered - {library / "release" / "your_table.py"}
    reached = {path.relative_to(library).as_posix() for path in by_room for path in imported(path)}
    reached -= {"runs/progress.py", "runs/typed.py"}
    assert not {name for name in reached if name.startswith(("figures/", "metrics/", "runs/"))}


def test_a_study_comes_from_a_command(folder, tmp_path, capsys):
    """The folder is an app in Flower's conventions: its own command builds it."""
    from flwr.cli.build import build_fab_from_disk

    words = ["deploy", "init", str(tmp_path / "new"), "--schema", str(folder / "schema.toml")]
    words += ["--ca", str(folder / "server/ca.pem")]
    for name, rows in ROWS.items():
        words += ["--site", f"{name}:{rows}:{folder / name / 'node.pub'}"]
    assert commands.main(words) == 0  # where no method is named, no party sees counts
    assert read_study(tmp_path / "new").plan.method.TRUST == "secure sum"
    shutil.rmtree(tmp_path / "new")
    capsys.readouterr()
    words += ["--method", "independent", "--set", "bins=7"]
    assert commands.main([*words, "--publish", "east"]) == 2
    assert "publish is 'east', which is no site of the study" in capsys.readouterr().err
    words += ["--publish", "west", "--holdout", "0.4", "--evaluation-epsilon", "1", "--same-people"]
    assert commands.main(words) == 0
    made = read_study(tmp_path / "new")
    assert capsys.readouterr().out.strip() == made.digest
    assert made.plan.job.config.bins == 7 and made.secure and made.name == "new"
    assert [each.publishes for each in made.sites] == [False, False, True]
    assert not made.other_people
    assert build_fab_from_disk(tmp_path / "new")
    assert commands.main(words) == 2
    assert "there is something in this folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("trust", "said"),
    [
        ("secure sum", "safe from {} and 0 other site(s) together"),
        ("server", "the server, which learns exact sums and adds the noise"),
        ("local noise", "nobody else: each client adds its noise before anything leaves it"),
    ],
)
def test_a_study_says_whom_its_method_needs_to_be_trusted(study, monkeypatch, trust, said):
    method = replace(METHODS["independent"], TRUST=trust)
    monkeypatch.setitem(METHODS, "independent", method)
    said = said.format(server_of(method))
    assert [line for line in study.lines() if line.startswith("  trust")] == [
        f"  trust    {said}; no sum over fewer than 2 sites; 1 may drop out"
    ]


def adds_noise(key: str) -> bool:
    """Whether some settings of the method protect all that it releases."""
    return getattr(METHODS[key].Config(), "private", True) and key != "augflaim_oracle"


@pytest.mark.parametrize("key", [key for key in METHODS if adds_noise(key)])
def test_a_study_of_any_method_that_adds_noise_needs_no_settings(
    folder, tmp_path, monkeypatch, key
):
    """They are those of `fedsynth synth`, for as many rows as the sites learn from, and written down.
    How much noise that takes is not asked here."""
    monkeypatch.setattr(settings, "noise_for", lambda *_: 1.0)
    study = study_in(folder, tmp_path / "new", method=key, holdout=0.5)
    config = fitting(private_config(METHODS[key]), study.form.schema, sum(study.sizes), 1.0)
    assert study.plan.config == config


def test_settings_follow_the_rows_to_learn_from_and_go_before_those_of_a_release(folder, tmp_path):
    given = {"rounds": 3, "annealed": False}
    few, more = (
        study_in(folder, tmp_path / f"{epsilon}", method="distaim", epsilon=epsilon, config=given)
        for epsilon in (3.0, 4.0)  # 620 rows: 1,860 and 2,480 of what is asked for
    )
    assert dict(few.config) == {"bins": 16, "participation": 1.0} | given
    assert dict(more.config) == {"participation": 1.0} | given
    held = study_in(folder, tmp_path / "held", method="distaim", epsilon=4.0, holdout=0.3)
    assert held.config["bins"] == 16


def test_a_study_of_a_method_without_noise_is_refused(folder, tmp_path):
    with pytest.raises(BadInput, match="method ctgan adds no noise; choose one that does, such as"):
        study_in(folder, tmp_path / "new", method="ctgan")
    with pytest.raises(BadInput, match=r"method 'aimm' is unknown \(did you mean 'aim'\?\)"):
        study_in(folder, tmp_path / "new", method="aimm")
    assert not (tmp_path / "new").exists()


def test_bad_words_are_refused():
    assert parsed_settings(["bins = 3", 'x="a"']) == {"bins": 3, "x": "a"}
    for text in ("bins", "bins=three"):
        with pytest.raises(BadInput, match="write NAME=VALUE"):
            parsed_settings([text])
    for text in ("north", "north:many", ":3"):
        with pytest.raises(BadInput, match="write NAME:ROWS"):
            parsed_site(text)


# --- keys -----------------------------------------------------------------------------------------


def test_the_authoritys_key_is_not_where_the_server_runs(folder, tmp_path):
    """A server that finds it does not start; without it no further certificate is made."""
    assert not (folder / "server" / "ca.key").exists()
    copy(folder, "study", str(tmp_path / "study"))
    own = copy(folder, "server", str(tmp_path / "server"))
    shutil.copy(folder / "server-authority" / "ca.key", own)
    with pytest.raises(BadInput, match=r"the server does not need it; move it to .*-authority"):
        server.serve(tmp_path / "study", own, say=print)
    with pytest.raises(BadInput, match=r"the key of the authority .* is not there; bring it back"):
        keys.make_server_keys(own, ["b.example"])


def test_keys_are_their_owners_alone(folder):
    for path in ("server-authority/ca.key", "server/server.key", "north/node"):
        assert stat.S_IMODE((folder / path).stat().st_mode) == 0o600
    private = keys.private_key(folder / "north" / "node")
    public = {name: (folder / name / "node.pub").read_text() for name in ROWS}
    assert [keys.same_key(private, public[name]) for name in ROWS] == [True, False, False]
    assert re.fullmatch(r"SHA256:[\w+/]{43}", keys.fingerprint(public["north"]))
    (folder / "north" / "node").chmod(0o644)
    with pytest.raises(BadInput, match="others can read this key; chmod 600"):
        keys.private_key(folder / "north" / "node")


def test_a_certificate_names_hosts_and_ends(tmp_path):
    keys.make_server_keys(tmp_path, ["a.example", "10.1.2.3"], days=30)
    found = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.1.2.3"]
    left = found.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=29) < left < timedelta(days=30)
    first = (tmp_path / "ca.pem").read_bytes()
    keys.make_server_keys(tmp_path, ["b.example"])  # another certificate of the same authority
    assert (tmp_path / "ca.pem").read_bytes() == first


def test_a_clock_outside_of_the_certificate_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "EARLIER", timedelta(days=40))  # it has ended ten days ago
    keys.make_server_keys(tmp_path, ["localhost"], days=30)
    with pytest.raises(BadInput, match="and the clock here says"):
        keys.check_validity(tmp_path / "server.pem")


# --- a site ---------------------------------------------------------------------------------------


def test_cells_that_do_not_fit_are_named_for_the_operator_alone(folder, study, tmp_path):
    rows = rows_of("north").astype({"age": object})
    rows.loc[:6, "age"] = 140  # moved into its range, so it fits
    rows.loc[7, "age"] = "old"
    rows.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(BadInput) as refused:
        Own(folder / "north").place(study, "north", tmp_path / "bad.csv")
    assert "column 'age' holds something that is not a number (row 8)" in str(refused.value)
    assert not re.search(r"\b(140|old|8)\b", refused.value.told.replace(str(tmp_path), ""))


@pytest.mark.parametrize(
    ("rows", "said"),
    [(0, "the table has no rows"), (1, "there is one row"), (20, "is this the right file?")],
)
def test_a_site_needs_about_its_rows(folder, study, tmp_path, rows, said):
    rows_of("north").head(rows).to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(BadInput, match=re.escape(said)):
        Own(folder / "north").place(study, "north", tmp_path / "few.csv")


def test_the_key_must_be_the_one_in_the_study(folder, study):
    with pytest.raises(BadInput, match="not the key that study hearts has of site 'south'"):
        Own(folder / "north").place(study, "south", folder / "south.csv")
    with pytest.raises(BadInput, match="site 'nort' is not in study hearts"):
        Own(folder / "north").place(study, "nort", folder / "north.csv")


class Connected(Exception):
    """The site would answer now."""


@pytest.fixture
def take_part(folder, study, monkeypatch):
    """Starts site north as its operator would, up to its connection; gives what it was asked and
    what it said."""

    def connected(*_, **options):
        raise Connected

    monkeypatch.setattr(site, "_connect", connected)

    def start(answer=True, **options):
        asked, said = [], []
        places = (folder / "study", "north", folder / "north.csv", folder / "north")
        end = (Connected, None) if answer else (BadInput, "its operator has declined")
        with pytest.raises(end[0], match=end[1]):
            site.run_site(
                *places, say=said.append, ask=lambda text: asked.append(text) or answer, **options
            )
        return asked, said

    return start


def test_an_operator_is_asked_once_for_each_number_of_runs(folder, study, take_part):
    book = Own(folder / "north").open_ledger(study)
    (first,), _ = take_part(answer=False)
    others = [keys.fingerprint(each.key) for each in study.sites]
    for part in ("REHEARSAL", "independent", "epsilon 1", "age, smoker", study.digest, *others):
        assert part in first
    assert "1 of independent; none was made before" in first and book.agreed() == 0
    assert "0 releases; with all of these runs it has spent 1 of 100" in first
    assert len(take_part()[0]) == 1 and book.agreed() == 1
    assert take_part()[0] == []
    book.begin(study.plan.job, 0, run=41, number=0)
    asked, said = take_part()  # a service that starts it again agrees to nothing
    assert asked == [] and book.agreed() == 1
    assert "independent was run 1 times, which is all that was agreed to (run 41)" in said[-1]
    (third,), _ = take_part(runs=3)
    assert "3 of independent; 1 of independent before (run 41)" in third
    assert "epsilon 1 and delta 1e-06 in 1 releases; with all of these runs" in third
    assert "it has spent 3 of 100, and 3e-06 of 1" in third and book.agreed() == 3
    with pytest.raises(BadInput, match="runs is 0; give 1 or more"):
        site.run_site(folder, "north", "", folder, say=print, ask=lambda text: True, runs=0)


def test_where_no_limit_is_given_a_site_pays_what_its_operator_agreed_to(
    folder, tmp_path, take_part
):
    keys.make_site(tmp_path / "new", "ward")  # as `deploy keys` writes it
    shutil.copy(tmp_path / "new" / "budget.toml", folder / "north" / "budget.toml")
    own, study = Own(folder / "north"), read_study(folder / "study")
    held = replace(study, holdout=0.4, evaluation_epsilon=2.0)
    for each, runs, epsilon, delta in (
        (study, 1, 1.0, 1e-6),
        (held, 1, 3, 2e-6),
        (held, 2, 6, 4e-6),
    ):
        limited = own.open_ledger(each, runs)
        assert limited.most_epsilon == pytest.approx(epsilon)
        assert limited.most_delta == pytest.approx(delta)
    assert site.noisy_count(own, folder / "north.csv", folder / "schema.toml", 0.25) > 0
    with pytest.raises(
        Refused, match=r"1 releases have spent epsilon 0\.25, and 1 more would exceed 1"
    ):
        own.place(study, "north", folder / "north.csv").ledger.admit(*study.cost)
    counted = replace(study, counted_epsilon=0.25)
    own.open_ledger(counted).admit(*study.cost)
    own.open_ledger(study).agree(2)
    assert own.open_ledger(study).most_epsilon == 2.0


def test_releases_that_a_new_ledger_would_not_count_are_refused(folder, study):
    """Of `synth`, which keeps its ledger in the project: the budget of these people is one."""
    book = open_ledger("south", most_epsilon=3.0)
    book.settle(book.reserve("fedpgm", 2.0, 1e-6), 2.0, 1e-6)
    own = Own(folder / "south")
    with pytest.raises(Refused, match="1 releases about 'south' have spent epsilon 2, delta 1e-06"):
        own.open_ledger(study)
    with pytest.raises(Refused, match="another name of the population"):
        site.noisy_count(own, folder / "south.csv", folder / "schema.toml", 0.5)
    (own.folder / "budget.toml").write_text('population = "ward"\nmost_epsilon = 1.0')
    ledger = own.open_ledger(study)
    assert ledger.population == "ward" and ledger.most_epsilon == 1.0
    ledger.agree(1)
    book = open_ledger("ward")
    book.settle(book.reserve("fedpgm", 2.0, 1e-6), 2.0, 1e-6)
    assert own.open_ledger(study).agreed() == 1  # one that has begun counts its own


def test_a_ledger_is_in_the_sites_own_folder(folder, study, tmp_path, monkeypatch):
    """Another home, as of another installation, changes nothing of what was spent."""
    own = Own(folder / "south")
    number = site.noisy_count(own, folder / "south.csv", folder / "schema.toml", 0.5)
    assert abs(number - ROWS["south"]) < 60  # exp(-30) of being farther
    assert (folder / "south" / "ledger" / "south.jsonl").is_file()
    assert not (tmp_path / "data" / "ledger").exists()
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path / "other"))
    assert own.open_ledger().total().epsilon == 0.5
    (folder / "south" / "ledger" / "south.jsonl").unlink()
    with pytest.raises(BadInput, match=r"south\.head says '2', so the releases cannot be counted"):
        own.open_ledger().total()
    shutil.rmtree(folder / "south" / "ledger")
    with pytest.raises(BadInput, match=r"south\.jsonl: it has 0 lines, not those of which .*last"):
        own.open_ledger().total()
    assert commands.main(["ledger", "--own", str(own.folder)]) == 2


def test_a_sites_ledger_is_shown_and_a_folder_that_cannot_be_written_is_one_sentence(
    folder, study, capsys
):
    count = ["deploy", "count", str(folder / "west.csv"), "--own", str(folder / "west")]
    count += ["--schema", str(folder / "schema.toml")]
    assert commands.main(count) == 0
    capsys.readouterr()
    assert commands.main(["ledger", "--own", str(folder / "west")]) == 0
    assert capsys.readouterr().out == "west: 1 releases, epsilon 0.02, delta 0\n"
    shutil.rmtree(folder / "west" / "ledger")
    (folder / "west" / "west.last").unlink()
    (folder / "west" / "ledger").write_text("a file")
    assert commands.main(count) == 2
    said = capsys.readouterr().err
    assert "ledger/west.jsonl cannot be written (" in said and said.count("\n") == 1


def test_a_key_of_rows_set_aside_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    own, held = Own(tmp_path), SimpleNamespace(is_divided_in_secret=True)

    def full(place):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(BadInput, match=r"split\.key cannot be written"):
            own.split_key(held)
    assert not list(tmp_path.iterdir())
    key = own.split_key(held)
    assert len(key) == 32 and own.split_key(held) == key
    assert (tmp_path / "split.key").stat().st_mode & 0o077 == 0
    for cut in (b"", key[:10]):
        (tmp_path / "split.key").write_bytes(cut)
        with pytest.raises(BadInput, match=r"split\.key: this is no key of 32 bytes.* from a copy"):
            own.split_key(held)


def test_a_budget_file_has_the_last_word(folder, study, tmp_path):
    own = Own(copy(folder, "north", str(tmp_path / "own")))
    (own.folder / "budget.toml").write_text(
        'population = "few"\nmost_epsilon = 0.5\nmost_delta = 1'
    )
    with pytest.raises(Refused, match=r"1 more would exceed 0\.5"):
        places = (folder / "study", "north", folder / "north.csv", own.folder)
        site.run_site(*places, say=print, ask=lambda text: True)
    own = Own(own.folder)
    assert own.open_ledger().total().releases == 0
    (own.folder / "budget.toml").write_text('population = "few"\nmost_epsilon = "all"')
    with pytest.raises(BadInput, match="most_epsilon is 'all': it should be a valid number"):
        Own(own.folder).open_ledger()


def test_without_a_certificate_nothing_is_deployed(folder, study, tmp_path):
    site.check_secure(study)
    bare = re.sub(r'(?s)ca = """.*?"""', "", (folder / "study/hearts/study.toml").read_text())
    (folder / "study/hearts/study.toml").write_text(bare)
    for start in (
        lambda: server.serve(folder / "study", folder / "server", say=print),
        lambda: server.run(folder / "study", folder / "server", tmp_path, say=print),
        lambda: site.run_site(
            folder / "study", "north", folder / "north.csv", folder / "north", say=print, ask=bool
        ),
    ):
        with pytest.raises(BadInput, match=r"no certificate, or no key .* rehearse without keys"):
            start()


def test_another_flower_is_named(monkeypatch):
    for found in ("1.38.1", "1.42.0", "2.0.0"):
        monkeypatch.setattr(studies, "version", lambda name, found=found: found)
        with pytest.raises(BadInput, match=f"Flower {found} is installed, .* needs >=1.41,<1.42"):
            studies.check_flower()
    monkeypatch.setattr(studies, "version", lambda name: "1.41.7")
    studies.check_flower()


def test_a_port_in_use_is_named():
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadInput, match=r"server: port \d+ of 127.0.0.1 cannot be had"):
            processes.check_free(taken.getsockname()[1], "127.0.0.1", "server")


# --- the apps, in process -------------------------------------------------------------------------


@pytest.fixture
def places(folder, study):
    return places_of(folder, study)


def test_apps_make_the_rows_of_the_run_in_process(folder, study, places, tmp_path):
    """Nodes in another order than sites; every site has paid."""
    carried_out(study, places[::-1], tmp_path / "out")
    rows = (tmp_path / "out" / "hearts_rehearsal.csv").read_bytes()
    assert rows == in_one_process(folder, study)
    assert rows == saved.read(tmp_path / "out" / "hearts_rehearsal.fedsynth").file()
    statement = (tmp_path / "out" / "hearts_rehearsal_privacy.md").read_text()
    assert "**epsilon = 1, delta = 1e-06.**" in statement and "must not be released" in statement
    assert [place.ledger.total().epsilon for place in places] == pytest.approx([1, 1, 1])
    assert "not between half and twice the declared one" in statement
    traffic = json.loads((tmp_path / "out" / "hearts_rehearsal_traffic.json").read_text())
    assert set(traffic) == {"bytes_up", "bytes_down", "messages"}  # no time, which rows may decide


def test_a_second_run_needs_another_agreement_and_its_statement_has_the_total(
    study, places, tmp_path, monkeypatch
):
    carried_out(study, places, tmp_path / "first")
    monkeypatch.setattr(flower, "LOCAL_RUN", 2)
    with pytest.raises(Refused, match=r"agreed to 1 runs of this study, made as 1; .* --runs 2"):
        carried_out(study, places, tmp_path / "second")
    assert [place.ledger.total().epsilon for place in places] == pytest.approx([1, 1, 1])
    for place in places:
        place.ledger.agree(2)
    carried_out(study, places, tmp_path / "second")
    assert [place.ledger.total().epsilon for place in places] == pytest.approx([2, 2, 2])
    totals = {
        "md": "one of 2 releases of the same rows: together they have epsilon = 2, delta = 2e-06",
        "html": "2, with epsilon 2 and delta 2e-06 together",
    }
    for which, found in (("first", False), ("second", True)):
        for kind, total in totals.items():
            text = (tmp_path / which / f"hearts_rehearsal_privacy.{kind}").read_text()
            assert (total in text) == found, (which, kind)


HELD = {"holdout": 0.4, "evaluation_epsilon": 2.0}
START = "hearts_rehearsal_evaluation"


def trained_and_evaluated(study, places, out, monkeypatch) -> Path:
    """The rows of a run, which sites have evaluated in another one."""
    carried_out(study, places, out)
    rows = out / "hearts_rehearsal.csv"
    monkeypatch.setattr(flower, "LOCAL_RUN", 2)  # to whom rounds are new
    carried_out(study, places, out, evaluate=str(rows))
    return rows


def test_sites_evaluate_with_rows_that_they_have_set_aside(folder, study, tmp_path, monkeypatch):
    """As in one process over the same rows; and the ledger has both runs."""
    study = replace(study, **HELD)
    places = places_of(folder, study)
    rows = trained_and_evaluated(study, places, tmp_path, monkeypatch)
    for place in places:
        train, aside = place.divided()
        assert sorted([*train.index, *aside.index]) == list(range(len(place.table)))
        assert place.ledger.total().epsilon == pytest.approx(3.0)
    found = pd.read_csv(tmp_path / f"{START}.csv", index_col="measure")
    same_figures(found, evaluated_in_one_process(folder, study, rows).all_sites.figures)
    said = (tmp_path / f"{START}_privacy.md").read_text()
    assert "A person pays epsilon 1 for the synthetic rows or 2 for their evaluation" in said


def test_a_site_publishes_its_own_figures_where_all_agree_on_it(
    folder, study, tmp_path, monkeypatch
):
    """As in one process; the others' are in the sum alone. Same people pay for both runs."""
    sites = (*study.sites[:2], replace(study.sites[2], publishes=True))
    study = replace(study, **HELD, other_people=False, sites=sites)
    with pytest.raises(BadInput, match=r"leaves a sum of 2 others, 1 of them absent at most"):
        study.evaluation()  # the sum less what is published would be one site's
    study = replace(study, absent=0)
    assert "west: about 120 rows" in (said := "\n".join(study.lines("north")))
    assert ", publishes its own figures" in said and "and both add up" in said
    rows = trained_and_evaluated(study, places_of(folder, study), tmp_path, monkeypatch)
    here = evaluated_in_one_process(
        folder, study, rows, published=["west"], privacy=Privacy(2.0, 1e-6, curious=0)
    )
    for name, scored in (("", here.all_sites), ("_west", here.sites["west"])):
        found = pd.read_csv(tmp_path / f"{START}{name}.csv", index_col="measure")
        same_figures(found, scored.figures)
    assert not list(tmp_path.glob(f"{START}_north*")) and list(tmp_path.glob(f"{START}_west_*"))
    text = (tmp_path / f"{START}_privacy.md").read_text()
    assert "These sites show their own figures as well: west." in text
    assert "epsilon 1 and 2, 3 together" in text


@pytest.mark.parametrize("other", [False, True])
def test_statements_count_all_runs_of_a_study_about_the_same_people(
    other, folder, study, tmp_path, monkeypatch
):
    """Two trainings, an evaluation, another training. Nobody is in both where people are others."""
    study = replace(study, **HELD, other_people=other)
    places = places_of(folder, study)
    for place in places:
        place.ledger.agree(3)
        place.ledger.most_epsilon = place.ledger.most_delta = 9
    said = []
    for run in (1, 2, 3, 4):
        monkeypatch.setattr(flower, "LOCAL_RUN", run)
        rows = {"evaluate": str(tmp_path / "hearts_rehearsal.csv")} if run == 3 else {}
        carried_out(study, places, tmp_path, **rows)
        ending = "_evaluation_privacy.md" if run == 3 else "_privacy.md"
        said.append((tmp_path / f"hearts_rehearsal{ending}").read_text())
    page = (tmp_path / "hearts_rehearsal_privacy.html").read_text()
    learned, counted = study.costs
    total = "releases of the same rows{}: together they have epsilon = {}, "
    if other:
        assert f"one of 2 {total}".format("", 2) in said[1] and "of the same rows" not in said[2]
        assert "pays epsilon 2 in 2 runs for the synthetic rows or 2 for their" in said[2]
        assert f"one of 3 {total}".format("", 3) in said[3]
    else:
        counts = [f" ({number} of {learned}, 1 of {counted})" for number in (2, 3)]
        assert f"one of 3 {total}".format(counts[0], 4) in said[2]
        assert "epsilon 2 in 2 runs and 2, 4 together" in said[2]
        assert f"one of 4 {total}".format(counts[1], 5) in said[3]
        assert f"4{counts[1]}, with epsilon 5 and delta 4e-06 together" in page


def test_a_statement_says_whom_it_protects_from(study):
    """From a server that lies only where sites check what it sends."""
    release = replace(study, release=True, colluding=1, absent=0)
    for name, start, end in (
        ("independent", "whoever sees the rows, and {}, together", "at most 1 of the 3 sites"),
        ("findiff", "whoever sees the rows or anything that crosses the wire: {}, and", "together"),
        ("aim", "whoever sees the rows, and the other sites; the server is trusted to", "learns"),
    ):
        credulous = replace(METHODS[name], check_broadcast=None)
        checking = replace(credulous, check_broadcast=lambda *_, **__: None)
        for method, party in (
            (credulous, "an honest-but-curious server"),
            (checking, "the server, whatever it does (but for timing)"),
        ):
            said = results.adversary(release, method, "the rows")
            assert said.startswith(start.format(party)) and end in said
            assert "nobody who knows the seed" in results.adversary(study, method, "the rows")


def test_another_sites_partition_is_refused(study, places, tmp_path):
    """A site with its own key in the place of another one."""
    impostor = replace(places[1], key=places[0].key)
    with pytest.raises(Refused, match="it is site 'south' and has not signed with the key"):
        carried_out(study, [impostor, places[1], places[2]], tmp_path)
    unsigned = replace(places[1], key=None)
    with pytest.raises(Refused, match="it is site 'south' and has not signed with the key"):
        carried_out(study, [places[0], unsigned, places[2]], tmp_path)
    with pytest.raises(Refused, match=re.escape("hold the partitions [0, 2]")):
        carried_out(study, [places[0], places[0], places[2]], tmp_path)
    assert places[0].ledger.total().releases == 0


def test_an_answer_is_signed_for_its_message_alone(study, places):
    """What a site has signed for one message is worth nothing for another."""
    grid = flower.LocalGrid(apps.site_app(places[0]), 1)

    def answer() -> Message:
        message = Message(RecordDict(), message_type=flower.WHO, dst_node_id=1)
        (reply,) = grid.send_and_receive([message])
        return reply

    first, second, third = answer(), answer(), answer()
    second.content[apps.SIGNATURE] = first.content[apps.SIGNATURE].copy()
    apps.check_signature(study, 0, first)
    for client, reply in ((0, second), (1, third), (7, third)):
        with pytest.raises(BadAnswer, match=rf"client {client} and has not signed"):
            apps.check_signature(study, client, reply)


@pytest.mark.parametrize(
    "signed", [None, {}, {"signature": 2**40}, {"signature": "ab"}, {"signature": [b"ab"]}]
)
def test_what_is_no_signature_is_refused(study, places, signed):
    grid = flower.LocalGrid(apps.site_app(places[0]), 1)
    message = Message(RecordDict(), message_type=flower.WHO, dst_node_id=1)
    (reply,) = grid.send_and_receive([message])
    del reply.content[apps.SIGNATURE]
    if signed is not None:
        reply.content[apps.SIGNATURE] = ConfigRecord(signed)
    with pytest.raises(BadAnswer, match="has not signed") as refused:
        apps.check_signature(study, 0, reply)
    assert refused.value.code == "signature"


def test_a_site_that_signs_wrongly_in_a_round_is_gone_and_the_run_says_so(
    study, places, tmp_path, capsys
):
    """As a drop-out: nothing that it has sent is used, its own ledger has paid, and the run goes on
    to a statement within the budget."""
    app = Forger(places, lambda name, what: (name, what) == ("south", flower.STEP))
    carried_out(study, app, tmp_path)
    assert (tmp_path / "hearts_rehearsal.csv").is_file()
    assert "epsilon = 1" in (tmp_path / "hearts_rehearsal_privacy.md").read_text()
    said = capsys.readouterr().out
    assert "site 'south' is gone since round 1: a node says that it is site 'south' and has" in said
    assert ("south", "unmask") not in app.asked and ("west", "unmask") in app.asked
    assert [place.ledger.total().epsilon for place in places] == pytest.approx([1, 1, 1])


def test_where_too_few_sites_are_left_the_run_is_refused_with_a_reason(study, places, tmp_path):
    for when, match in (
        (
            lambda name, what: what == flower.STEP and name != "west",
            "can do without 1 of its 3 clients",
        ),
        (lambda name, what: (name, what) == ("west", "keys"), r"site 'west'.*\[signature\]"),
    ):
        with pytest.raises(Refused, match=match) as refused:
            carried_out(study, Forger(places, when), tmp_path)
        assert "has not signed with the key that the study has of it" in str(refused.value)
        assert not list(tmp_path.glob("hearts_*"))
    # the second run has asked nobody for rows
    assert [place.ledger.total().epsilon for place in places] == pytest.approx([1, 1, 1])


def test_a_site_with_another_schema_is_named_and_nothing_is_released(
    folder, study, places, tmp_path
):
    package = copy(folder, "study/hearts", str(tmp_path / "other"))
    schema = package / "schema.toml"
    schema.write_text(schema.read_text().replace("high = 100", "high = 120"))
    other = Own(folder / "west").place(read_study(package), "west", folder / "west.csv")
    with pytest.raises(Refused) as refused:
        carried_out(study, [*places[:2], other], tmp_path)
    assert str(refused.value) == (
        "site 'west' ('here') has another study: column 'age' has high = 120 here and 100 at the "
        "server; nothing was released."
    )
    assert [place.ledger.total().releases for place in places] == [0, 0, 0]


def test_the_two_lines_of_an_app_run_in_a_simulation(folder, study, tmp_path):
    """As `flwr run` with insecure = true and the folder of tables: same rows, no keys."""
    context = Context(
        flower.LOCAL_RUN,
        0,
        {},
        RecordDict(),
        {"out": str(tmp_path), "insecure": True, "tables": str(folder)},
    )
    here = str(folder / "study/hearts/client_app.py")
    grid = flower.LocalGrid(apps.client_app(here), 3)
    for each in grid._contexts.values():
        each.run_config = context.run_config
    apps.server_app(here)(grid, context)
    rows = (tmp_path / "hearts_rehearsal.csv").read_bytes()
    assert rows == in_one_process(folder, study)


def test_other_machines_get_what_sites_use_and_nothing_else():
    far, near, word = ("10.0.0.7", 5), ("127.0.0.1", 5), processes.password_of(bytes(32))
    shown = [(processes.PASSWORD.encode(), word.encode())]
    assert child.admitted("/v1/fleet/pull-messages", far, [], word)
    for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task"):
        assert child.admitted(path, near, shown, word)
        assert not child.admitted(path, far, shown, word)
        assert not child.admitted(path, None, shown, word)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"x-fedsynth-password", b"")],
        [(b"x-fedsynth-password", processes.password_of(b"other").encode())],
        [(b"x-fedsynth-password", b"RIGHT"), (b"x-forwarded-for", b"127.0.0.1")],
        [(b"x-fedsynth-password", b"RIGHT"), (b"forwarded", b"for=127.0.0.1")],
        [(b"x-fedsynth-password", b"RIGHT"), (b"via", b"1.1 proxy")],
        [(b"x-fedsynth-password", b"RIGHT"), (b"x-real-ip", b"127.0.0.1")],
        [(b"x-fedsynth-password", b"RIGHT"), (b"x-fedsynth-password", b"RIGHT")],
    ],
)
def test_who_is_here_needs_the_password_and_must_have_come_directly(headers):
    word = processes.password_of(bytes(32))
    headers = [(name, value.replace(b"RIGHT", word.encode())) for name, value in headers]
    assert not child.admitted("/v1/control/start-run", ("127.0.0.1", 5), headers, word)
