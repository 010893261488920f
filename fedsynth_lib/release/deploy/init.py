"""A study as the folder of a Flower app, in the conventions of Flower Hub."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedsynth_lib import __version__
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.methods import METHODS, release
from fedsynth_lib.release.deploy import keys
from fedsynth_lib.release.deploy.study import FLOWER, SCHEMA, STUDY, Study, check_plan, read_study
from fedsynth_lib.tables.form import read_form
from fedsynth_lib.tables.schema import Schema

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = "A private synthetic table of {sites} sites: {method}, epsilon {epsilon:g}"
license = "MIT"
dependencies = ["flwr[simulation]{flower}", "fedsynth=={version}"]

[tool.hatch.build.targets.wheel]
packages = ["{name}"]

[tool.flwr.app]
publisher = "fedsynth"

[tool.flwr.app.components]
serverapp = "{name}.server_app:app"
clientapp = "{name}.client_app:app"

[tool.flwr.app.config]
out = ""            # folder for rows and statement
tables = ""         # of a simulation: the folder with a CSV for each site
evaluate = ""       # a file of synthetic rows, to be evaluated at the sites
insecure = false    # true where sites have no keys, as in a simulation
"""
UNIT = """\
# For machines with systemd: correct {correct}, copy this file to /etc/systemd/system, then
#     systemctl enable --now {name}-{party}
[Unit]
Description=The {party} of the study {name}
After=network-online.target
Wants=network-online.target

[Service]
User=fedsynth
WorkingDirectory=/srv/{name}
ExecStart=/srv/fedsynth/bin/fedsynth deploy {command}
Restart=on-failure
RestartSec=15

[Install]
WantedBy=multi-user.target
"""
PARTIES = {  # party -> what to correct in its unit, and the command that it starts
    "server": ("the paths", "server --study {name}-app --own server"),
    "site": (
        "NAME and the paths, agree once to the same command in a terminal",
        "site NAME --study {name}-app --own own --table NAME.csv",
    ),
}
README = """\
# {name}

A private synthetic table of {sites} sites that do not pool their rows: {method}, epsilon
{epsilon:g}, delta {delta:g}. All parties agree on `{name}/study.toml` and `{name}/schema.toml`.

    fedsynth deploy server --study . --own SERVER                    # the server
    fedsynth deploy site NAME --study . --own OWN --table NAME.csv   # each site
    fedsynth deploy run --study . --own SERVER                       # beside the server

`{name}-server.service` and `{name}-site.service` are for machines with systemd.

The same app in a simulation, where DIR holds a CSV for each site:

    flwr run . --run-config 'insecure=true tables="DIR"' \\
        --federation-config 'num-supernodes={sites}'
"""
APP = '''\
"""The {which} of the study, which is in study.toml and schema.toml beside this file."""

from fedsynth_lib.release.deploy import apps

app = apps.{function}(__file__)
'''


def init(
    folder: str | Path,
    *,
    name: str,
    schema: str | Path,
    sites: Sequence[tuple[str, int, str]],
    ca: str = "",
    publish: Sequence[str] = (),
    **entries: Any,
) -> Study:
    """Write the app's folder and return its study, checked as every party will check it.

    sites: (name, rows, public key) each. ca: PEM. publish: names of sites that show their own
        figures of the evaluation. entries: further ones of `Study`; `config` goes before the
        settings of a release (`methods/release.py`), which are written down like it.
    Raise BadInput for a folder that has something in it, and for all that a study cannot be.
    """
    folder = Path(folder).expanduser().absolute()
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder}: there is something in this folder; name a new one.")
    try:
        declared = Path(schema).expanduser().read_bytes()
    except OSError as error:
        raise BadInput(f"schema: {schema} cannot be read ({error.strerror}).") from None
    if unknown := sorted(set(publish) - {site for site, *_ in sites}):
        raise BadInput(f"publish is {unknown[0]!r}, which is no site of the study; name a --site.")
    with TemporaryDirectory() as trial:  # nothing is left of a study that cannot be
        write_atomically(Path(trial) / SCHEMA, declared)
        try:
            known = read_form(Path(trial) / SCHEMA).schema
            config = _settings(known, sites, **entries) | dict(entries.get("config", {}))
            entries["config"] = config
            study_file = study_text({"name": name, **entries}, sites, ca, publish).encode()
            write_atomically(Path(trial) / STUDY, study_file)
            check_plan(read_study(trial))
        except BadInput as error:  # the user knows the schema, and no study.toml yet
            text = str(error).replace(f"{Path(trial) / STUDY}: ", "")
            raise BadInput(text.replace(str(Path(trial) / SCHEMA), str(schema))) from None
    package = folder / name
    write_atomically(package / SCHEMA, declared)
    write_atomically(package / STUDY, study_file)
    study = read_study(package)
    facts = {
        "name": name,
        "sites": len(study.sites),
        "method": study.method,
        "epsilon": study.epsilon,
        "delta": study.delta,
        "version": __version__,
        "flower": FLOWER,
    }
    write_atomically(folder / "pyproject.toml", PYPROJECT.format(**facts).encode())
    write_atomically(folder / "README.md", README.format(**facts).encode())
    for party, (correct, command) in PARTIES.items():
        unit = UNIT.format(
            name=name, party=party, correct=correct, command=command.format(name=name)
        )
        write_atomically(folder / f"{name}-{party}.service", unit.encode())
    write_atomically(package / "__init__.py", f'"""Study {name}."""\n'.encode())
    for which, function in (("clientapp", "client_app"), ("serverapp", "server_app")):
        text = APP.format(which=which, function=function)
        write_atomically(package / f"{function}.py", text.encode())
    return study


def absent_of(sites: int) -> int:
    """Return how many of so many sites may drop out by default.

    From four on it is one: the sum of the others is still one of three.
    """
    return int(sites >= 4)


def about_absent(study: Study) -> str:
    """Return what it means that so many sites may drop out of the run."""
    if study.absent:
        return (
            f"absent = {study.absent}: the run goes on without so many sites; the others make "
            "their share of the noise"
        )
    remedy = (
        "; --absent 1 --colluding 0 --minimum-group 2 can do without one, but then no site may "
        "share with the server what it knows"
        if len(study.sites) == 3
        else ""
    )
    return (
        "absent = 0: where one site ends during the run, nothing comes out, and the ledgers of all "
        f"keep its epsilon{remedy}"
    )


def _settings(
    schema: Schema,
    sites: Sequence[tuple[str, int, str]],
    *,
    method: str,
    epsilon: float,
    holdout: float = 0.0,
    **others: Any,
) -> dict[str, Any]:
    """Return the settings of a release at these sites; an unknown method has none."""
    if method not in METHODS:
        return {}
    rows = sum(number for _, number, _ in sites) * (1 - holdout)
    return release.settings(METHODS[method], schema, rows, epsilon)


def study_text(
    entries: Mapping[str, Any],
    sites: Sequence[tuple[str, int, str]],
    ca: str,
    publish: Sequence[str] = (),
) -> str:
    """Return the content of study.toml."""
    config = entries.get("config", {})
    lines = ["# What all parties of this study agree on; each has the same file.", ""]
    lines += [f"{key} = {_toml(value)}" for key, value in entries.items() if key != "config"]
    if ca:
        lines.append(f'ca = """\n{ca.strip()}\n"""')
    lines += ["", "[config]", *(f"{key} = {_toml(value)}" for key, value in config.items())]
    for name, rows, key in sites:
        lines += ["", "[[site]]", f"name = {_toml(name)}", f"rows = {rows}"]
        lines += [f"key = {_toml(key.strip())}"] * bool(key)
        lines += ["publishes = true"] * (name in publish)
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def parsed_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return settings of a method from NAME=VALUE texts, with values as TOML has them."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            equals = ""
        if not equals:
            raise BadInput(f"set is {text!r}; write NAME=VALUE, a text in quotation marks.")
    return found


def parsed_site(text: str) -> tuple[str, int, str]:
    """Return (name, rows, key) from NAME:ROWS, or NAME:ROWS:the path of its node.pub."""
    name, _, rest = text.partition(":")
    rows, _, path = rest.partition(":")
    if not name or not rows.isdigit():
        raise BadInput(f"site is {text!r}; write NAME:ROWS:node.pub, such as north:1200:north.pub.")
    if not path:
        return name, int(rows), ""
    try:
        key = Path(path).expanduser().read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"site {name!r}: {path} cannot be read as a public key ({error}).") from None
    keys.public_key(key, path)
    return name, int(rows), key
