"""`import fedsynth_lib as fs`: documented names that load what they need when they are used."""

import subprocess
import sys

import pytest

import fedsynth_lib as fs
from fedsynth_lib.core.errors import BadInput
from fedsynth_lib.figures.save import Saver


@pytest.mark.parametrize("name", fs.PUBLIC)
def test_a_public_name_is_there_and_documented(name):
    found = getattr(fs, name)
    assert name in dir(fs)
    assert name == "METHODS" or found.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        fs.nosuch  # noqa: B018


def test_the_package_alone_imports_nothing_heavy():
    code = "import sys, fedsynth_lib; print(sorted({'numpy', 'pandas', 'torch'} & {*sys.modules}))"
    asked = [sys.executable, "-c", code]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_exhibit_opens_with_its_committed_rows_and_print_beside_them():
    chapter = fs.open_exhibit("maddock2024", "tab2", datasets=["adult"])
    compared = chapter.compared("tab2")
    error = compared.set_index(["method", "metric"])["ours"]["AugFLAIM (Private)", "workload_error"]
    assert round(error, 2) == 0.44  # printed 0.43
    assert set(compared["dataset"]) == {"adult"}
    remark = chapter.saver("Said first.").remark
    assert remark.startswith("Said first. Not ") and "magic; " in remark and "()" not in remark
    assert "(run" not in remark  # all of its methods were
    remark = fs.open_exhibit("leitner2023", "fig5.3").saver().remark
    assert remark == "Not shown: covertype (run: CTGAN, Real)."  # one run of two methods


def test_a_comparison_is_saved_under_the_name_of_its_exhibit(tmp_path):
    chapter = fs.open_exhibit("maddock2024", "tab2", datasets=["adult"])
    save = Saver("paper", "real", folder=tmp_path)
    saved = chapter.save_comparison(save, chapter.compared("tab2", "adult"), "Table 2")
    text = saved.md.read_text(encoding="utf-8")
    assert saved.md.name == "maddock2024_tab2.md" and text.startswith("Table 2: ours (published)")
    assert "±" in text  # repeats of each experiment
    saved = chapter.save_verdicts(save, chapter.compared("tab2"), "counted", "table 2")
    text = saved.md.read_text(encoding="utf-8")
    assert (
        text.startswith("Cells of table 2 by verdict, profile paper") and "log-likelihood" in text
    )


def test_an_unknown_exhibit_names_the_closest_one():
    with pytest.raises(BadInput, match="tab2"):
        fs.open_exhibit("maddock2024", "tabb2")
