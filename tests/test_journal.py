"""The file under every ledger: what is lost, cut, emptied or edited in it is noticed, and what a
killed process or a full disk leaves is put right."""

import hashlib
import shutil
import signal
import subprocess
import sys

import pytest

from fedsynth_lib.bundle import commands
from fedsynth_lib.core import journal as journals
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.journal import Journal
from fedsynth_lib.core.ledger import Ledger, Total
from fedsynth_lib.release.register import Register


def add(path, epsilon=1.0):
    Ledger(path).add({"method": "aim", "epsilon": epsilon, "delta": 0.0, "entries": []}, rows=1)


@pytest.fixture
def path(tmp_path):
    """A ledger of three releases, of epsilon 1, 2 and 3."""
    path = tmp_path / "ward.jsonl"
    for epsilon in (1.0, 2.0, 3.0):
        add(path, epsilon)
    return path


def rows_of(path):
    return path.read_bytes().splitlines(keepends=True)


def refused(path, match):
    """Neither read nor added to."""
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(BadInput, match=match) as error:
        Ledger(path).total()
    assert str(path) in str(error.value) and "from a copy" in str(error.value)
    with pytest.raises(BadInput, match=match):
        add(path)
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_whole_file_is_read_and_its_lines_show_no_hash(path):
    assert Ledger(path).total() == Total(3, 6.0, 0.0)
    assert all(journals.BEFORE not in line for line in Journal(path).lines())
    assert path.stat().st_mode & 0o077 == Journal(path).head.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_lines_that_are_gone_at_the_end_are_noticed(path, kept):
    path.write_bytes(b"".join(rows_of(path)[:kept]))
    refused(path, "says '3'" if kept < 2 else "last line was changed|says '3'")


def test_a_file_that_is_gone_is_noticed(path):
    path.unlink()
    refused(path, "it has 0 lines and ward.head says '3'")


def test_a_head_that_is_gone_or_changed_is_noticed(path):
    head = Journal(path).head
    content = head.read_bytes()
    head.unlink()
    refused(path, "ward.head is lost")
    for other in (b"", b"3\n", b"three lines\n", content.replace(b"3 ", b"2 ", 1)):
        head.write_bytes(other)
        refused(path, "ward.head")
    head.write_bytes(content)
    assert Ledger(path).total().epsilon == 6.0


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_line_that_was_edited_is_noticed(path, number):
    rows = rows_of(path)
    epsilon = f'"epsilon": {number + 1}.0'.encode()
    assert epsilon in rows[number]
    rows[number] = rows[number].replace(epsilon, b'"epsilon": 0.1')
    path.write_bytes(b"".join(rows))
    refused(path, "changed")


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2), (0, 1, 1, 2), (0, 1, 2, 2)])
def test_lines_in_another_order_or_twice_are_noticed(path, order):
    rows = rows_of(path)
    path.write_bytes(b"".join(rows[k] for k in order))
    refused(path, "changed|says '3'")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"epsilon": 2.0', '"epsilon": NaN', "line 1 has epsilon = NaN, which is not a number"),
        ('"epsilon": 2.0', '"epsilon": Infinity', "epsilon = Infinity"),
        ('"epsilon": 2.0', '"epsilon": -2.0', "epsilon = -2.0"),
        ('"epsilon": 2.0', '"epsilon": "2"', 'epsilon = "2"'),
        ('"epsilon": 2.0', '"epsilon": true', "epsilon = true"),
        ('"epsilon": 2.0, ', "", "epsilon = null"),
        (', "delta": 0.0', "", "delta = null"),
        ('"epsilon": 2.0, "delta": 0.0', '"run": 1, "round": -1', "round = -1"),
        ('{"epsilon"', '["epsilon"', "line 1 is not JSON"),
        ('"before": ""', '"before": "x"', "or that line, was changed"),
        (', "before": ""', "", "line 1 has no 'before', the hash of the lines above it, as"),
    ],
)
def test_what_is_no_line_is_refused_where_it_is_read(tmp_path, old, new, said):
    path = tmp_path / "ward.jsonl"
    text = '{"epsilon": 2.0, "delta": 0.0, "before": ""}\n'
    path.write_text(text)
    assert Ledger(path).total().epsilon == 2.0
    assert old in text
    path.write_text(text.replace(old, new))
    refused(path, said)


def in_two_places(folder):
    """A ledger that also keeps its last head outside of its folder."""
    return Ledger(folder / "ledger" / "ward.jsonl", last=folder / "ward.last")


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_what_a_power_cut_leaves_of_a_line_locks_nobody_out(path, cut):
    """Its writer has not gone on; the next line takes its place."""
    rows = path.read_bytes()
    add(path, 9.0)
    path.write_bytes(rows + rows_of(path)[-1][:cut])
    Journal(path).head.write_text(f"3 {hash_of(rows)}\n")
    assert Ledger(path).total() == Total(3, 6.0, 0.0)
    add(path, 4.0)
    assert path.read_bytes().startswith(rows) and Ledger(path).total() == Total(4, 10.0, 0.0)


def hash_of(content):
    found = ""
    for row in content.splitlines(keepends=True):
        found = hashlib.blake2b(found.encode() + row, digest_size=16).hexdigest()
    return found


def test_a_first_line_that_a_power_cut_has_left_counts_for_nothing(tmp_path):
    (tmp_path / "ward.jsonl").write_text('{"method": "aim", "eps')
    assert Ledger(tmp_path / "ward.jsonl").total() == Total(0, 0, 0)
    add(tmp_path / "ward.jsonl")
    assert Ledger(tmp_path / "ward.jsonl").total() == Total(1, 1.0, 0.0)


@pytest.mark.parametrize("cut", [1, 40])
def test_a_last_line_that_the_head_has_is_not_taken_for_one_that_a_power_cut_has_left(path, cut):
    rows = path.read_bytes()
    path.write_bytes(rows[:-cut])
    refused(path, "it has 2 lines and ward.head says '3'|last line was changed")
    Journal(path).head.unlink()
    path.write_bytes(rows[:-cut])
    refused(path, "ward.head is lost")


@pytest.mark.parametrize("loss", ["both files", "an older copy", "one line and no head"])
def test_what_is_kept_in_a_second_place_tells_what_was_lost(tmp_path, loss):
    book = in_two_places(tmp_path)
    said = {"method": "aim", "epsilon": 1.0, "delta": 0.0, "entries": []}
    book.add(said, rows=1)
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    book.add(said, rows=1)
    assert in_two_places(tmp_path).total() == Total(2, 2.0, 0.0)
    if loss == "one line and no head":
        path = book.journal.path
        path.write_bytes(rows_of(path)[0])
        book.journal.head.unlink()
    else:
        shutil.rmtree(tmp_path / "ledger")
        if loss == "an older copy":
            shutil.copytree(tmp_path / "copy", tmp_path / "ledger")
    for ask in (book.total, lambda: in_two_places(tmp_path).add(said, rows=1)):
        with pytest.raises(BadInput, match=r"not those of which .*ward\.last tells") as error:
            ask()
        assert f"delete {tmp_path / 'ward.last'} and take off most_epsilon" in str(error.value)
    (tmp_path / "ward.last").unlink()  # as the sentence says
    assert in_two_places(tmp_path).total().epsilon == (0.0 if loss == "both files" else 1.0)


def test_a_ledger_of_before_is_kept_in_a_second_place_from_its_next_line_on(tmp_path):
    add(tmp_path / "ledger" / "ward.jsonl")
    book = in_two_places(tmp_path)
    assert book.total().epsilon == 1.0
    add(book.journal.path)  # by a program that knows no second place, or died before it
    book.add({"method": "aim", "epsilon": 1.0, "delta": 0.0, "entries": []}, rows=1)
    assert (tmp_path / "ward.last").read_bytes() == book.journal.head.read_bytes()
    assert (tmp_path / "ward.last").stat().st_mode & 0o077 == 0


DIES = """
import os, signal, sys
from pathlib import Path
from fedsynth_lib.core import journal
from fedsynth_lib.core.ledger import Ledger
write = journal.write_through
def until_the_head(path, content, flags=0):
    if path.suffix == ".head":
        os.kill(os.getpid(), signal.SIGKILL)
    return write(path, content, flags)
journal.write_through = until_the_head
said = {"method": "aim", "epsilon": 4.0, "delta": 0.0, "entries": []}
Ledger(Path(sys.argv[1])).add(said, rows=1)
"""


@pytest.mark.parametrize("before", [0, 3])
def test_a_process_that_is_killed_between_line_and_head_locks_nobody_out(tmp_path, before):
    path = tmp_path / "ward.jsonl"
    for _ in range(before):
        add(path)
    spent = Ledger(path).total().epsilon
    died = subprocess.run([sys.executable, "-c", DIES, str(path)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert Ledger(path).total().epsilon == spent + 4.0  # its noise may have been drawn
    add(path)
    assert Ledger(path).total().epsilon == spent + 5.0
    path.write_bytes(b"".join(rows_of(path)[:-1]))
    refused(path, "ward.head")


FULL = """
import resource, signal, sys
from pathlib import Path
from fedsynth_lib.core.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
said = {"method": "aim", "epsilon": 4.0, "delta": 0.0, "entries": []}
try:
    Ledger(Path(sys.argv[1])).add(said, rows=1)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_line_that_has_no_room_is_not_written_and_is_one_sentence(path):
    content, head = path.read_bytes(), Journal(path).head.read_bytes()
    command = [sys.executable, "-c", FULL, str(path), str(len(content) + 20)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"BadInput {path} cannot be written (") and said.count("\n") == 1
    assert path.read_bytes() == content and Journal(path).head.read_bytes() == head


def test_a_head_that_has_no_room_takes_its_line_back(path, monkeypatch):
    content, write = path.read_bytes(), journals.write_through

    def full(place, *rest):
        if place.suffix == ".head":
            raise OSError(28, "No space left on device")
        return write(place, *rest)

    monkeypatch.setattr(journals, "write_through", full)
    with pytest.raises(BadInput, match=r"cannot be written \(No space left on device\)"):
        add(path)
    assert path.read_bytes() == content and Ledger(path).total().epsilon == 6.0


def test_a_line_that_could_not_be_read_again_is_not_written(path):
    content = path.read_bytes()
    with Journal(path).locked(), pytest.raises(ValueError, match=r"epsilon = -1\.0"):
        Journal(path).append({"epsilon": -1.0, "delta": 0.0})
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_written_is_one_sentence_of_every_command(home, capsys, tmp_path):
    (home / "data").write_text("a file where a folder should be")
    rows = "age,ill\n" + "".join(f"{18 + n % 60},{'no' if n % 3 else 'yes'}\n" for n in range(60))
    (home / "people.csv").write_text(rows)
    (home / "people.toml").write_text(
        '[[column]]\nname = "age"\nkind = "numeric"\nlow = 18\nhigh = 90\ninteger = true\n'
        '[[column]]\nname = "ill"\nkind = "categorical"\ncategories = ["no", "yes"]\n'
    )
    words = ["synth", str(home / "people.csv"), "--population", "ward", "--release"]
    words += ["--method", "independent", "--epsilon", "1", "--delta", "0", "--declared-rows", "60"]
    assert commands.main([*words, "--out", str(home / "out"), "--no-scores"]) == 2
    assert "cannot be written" in (said := capsys.readouterr().err) and "Traceback" not in said


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / "ward.jsonl").mkdir()
    with pytest.raises(BadInput, match=r"ward.jsonl cannot be read \(.*\): run the command as"):
        Ledger(tmp_path / "ward.jsonl").total()


def test_the_register_of_rows_has_the_same_lines(tmp_path):
    register, book = Register(tmp_path / "r"), Ledger(tmp_path / "ward.jsonl")
    options = {"name": "ward", "method": "aim", "epsilon": 1.0, "delta": 0.0, "again": True}
    for _ in range(2):
        register.begin("x", book, **options)
    register.journal.path.write_bytes(b"")
    refused(register.journal.path, "it has 0 lines and releases.head says '2'")
    with pytest.raises(BadInput, match="so the releases cannot be counted"):
        register.begin("x", book, **options)


def test_a_key_of_the_register_that_was_cut_off_is_not_taken_for_one(tmp_path):
    register = Register(tmp_path / "r")
    key = register.key()
    (tmp_path / "r" / "key").write_bytes(b"")  # nothing is registered: another one is made
    assert len(register.key()) == len(key) and register.key() != key
    register.begin(
        "x",
        Ledger(tmp_path / "ward.jsonl"),
        **{"name": "ward", "method": "aim", "epsilon": 1.0, "delta": 0.0, "again": False},
    )
    (tmp_path / "r" / "key").write_bytes(key[:10])
    with pytest.raises(BadInput, match="the key of the register is gone"):
        register.key()
