"""What the registry says of the methods, the variants, and what is imported for one."""

import pickle
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import cloudpickle
import promises
import pytest

from fedsynth_lib import works
from fedsynth_lib.core.contract import BadInput, Method
from fedsynth_lib.figures import look
from fedsynth_lib.methods import METHODS, REGISTRY, from_file, key_of, variants
from fedsynth_lib.methods.gan import ctgan
from fedsynth_lib.methods.marginals import distaim, flaim, independent
from fedsynth_lib.works import side_by_side

ROOT = Path(__file__).resolve().parents[1]
PROSE = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "data" / "published").glob("*.md")]
PROSE += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
HEAVY = {
    *("flwr", "joblib", "matplotlib", "opacus", "optuna", "pgmpy", "ray"),
    *("scipy.stats", "seaborn", "sklearn", "torch"),
}


@pytest.mark.parametrize("key", REGISTRY)
def test_an_entry_says_what_the_method_says(key):
    entry, method = REGISTRY[key], METHODS[key]
    assert (entry.name, entry.trust) == (method.name, method.TRUST)
    assert entry.private == promises.adds_noise(method)
    assert f"fedsynth_lib.methods.{entry.family}." in method.start.__module__
    assert key_of(method) == key
    for name in entry.printed.values():
        look("SDS" if key == "vaebgm" else name)  # that work draws its techniques


def test_names_are_those_of_the_works():
    def printed(work):
        return {
            entry.printed[work]: key for key, entry in REGISTRY.items() if work in entry.printed
        }

    for work in ("maddock2024", "leitner2023"):
        known = {name: method.key for name, method in works.load(work).methods.items()}
        assert printed(work).items() <= known.items()
        ours = {"", "fedpgm"}  # known rows, and what stands beside FLAIM's methods
        assert set(known.values()) - ours <= set(printed(work).values())
    entrants = {name: each.key for name, each in side_by_side.ENTRANTS.items()}
    assert printed("") | printed("field") == entrants


LIGHT = {  # statement -> which of these it may import
    "from fedsynth_lib.core import accounting, ledger, secure_sum, statement": "",
    "from fedsynth_lib.methods.bayes import bayesian_network": "",
    "from fedsynth_lib.methods.marginals import flaim; flaim.Config()": "",
    "from fedsynth_lib.methods import METHODS; METHODS['aim']; METHODS['fedbn']": "",
    "from fedsynth_lib.runs import names; names.is_method('ctgan')": "",
    "from fedsynth_lib.release import your_table": "flwr",  # it runs methods
}


@pytest.mark.slow
def test_what_counts_comes_without_packages_for_networks_and_pictures():
    """In one process: what is imported stays for the statements after it."""
    look = f"print(*sorted({HEAVY} & sys.modules.keys()))"
    code = "\n".join(["import sys", *(f"{statement}\n{look}" for statement in LIGHT)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert dict(zip(LIGHT, done.stdout.split("\n"), strict=False)) == LIGHT


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_files_of_methods_that_prose_names_are_there(path):
    named = set(re.findall(r"methods/[a-z_/]+\.(?:py|toml)\b", path.read_text(encoding="utf-8")))
    assert [each for each in named if not (ROOT / "fedsynth_lib" / each).is_file()] == []


# --- variants ---


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_a_variant_has_the_verbs_of_its_base_and_other_defaults(name):
    variant, method = variants.VARIANTS[name], variants.load(name)
    base = variants.load(variant.base)
    verbs = ("encoder", "plan", "start", "client_step", "server_step", "sample", "schedule")
    assert all(getattr(method, verb) is getattr(base, verb) for verb in verbs)
    settings, before = ({f.name: f.default for f in fields(m.Config)} for m in (method, base))
    assert settings == before | dict(variant.defaults) and list(settings) == list(before)
    # no default is listed that is none
    assert all(before[name] != value for name, value in variant.defaults.items())
    assert method.Config() == method.Config(**before | dict(variant.defaults)) != base.Config()
    assert isinstance(method.Config(), base.Config)


@pytest.mark.parametrize("key", METHODS)
def test_a_method_and_its_settings_travel_to_other_processes(key):
    method, config = METHODS[key], METHODS[key].Config()
    for packer in (pickle, cloudpickle):
        assert packer.loads(packer.dumps((method, config))) == (method, config)


def test_a_method_of_ones_own_file_travels_by_value(tmp_path):
    """As Ray's workers get it, which cannot import the file."""
    mine = Method.of(from_file(ROOT / "notebooks" / "your_method.py"))
    aged = mine.variant("aged", root="age")
    packed = tmp_path / "packed"
    packed.write_bytes(cloudpickle.dumps((mine, mine.Config(), aged, aged.Config())))
    code = f"""
import pickle
mine, config, aged, older = pickle.load(open({str(packed)!r}, "rb"))
assert config == mine.Config() and older == aged.Config() and aged.plan is mine.plan
print(mine.name, aged.name, older.root)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["your_method", "aged", "age"]


def test_a_method_is_equal_to_its_module_and_to_nothing_else():
    assert Method.of(flaim) == Method.of(Method.of(flaim)) == METHODS["augflaim_private"]
    assert Method.of(flaim) != METHODS["naiveflaim"] and key_of(distaim) == "distaim"
    assert key_of(replace(METHODS["aim"], TRUST="secure sum")) is None


def test_a_variant_of_ones_own():
    few = Method.of(ctgan).variant("few", training_rounds=3, trust="server", version=4)
    assert (few.name, few.TRUST, few.VERSION) == ("few", "server", 4)
    assert few.Config().training_rounds == 3 and few.Config().batch == ctgan.Config().batch
    assert repr(few.Config()).startswith("few.Config(training_rounds=3")
    with pytest.raises(BadInput, match="variant few: independent has no setting 'epochs'"):
        Method.of(independent).variant("few", epochs=3)
    with pytest.raises(BadInput, match=r"method sys: there is no VERSION; see core/contract\.py"):
        Method.of(sys)
    with pytest.raises(ImportError):
        exec("from fedsynth_lib.methods.variants import nothing")
