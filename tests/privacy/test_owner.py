"""What an owner keeps apart from accounts."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import LedgerFault
from recordwise.privacy.chain import Head
from recordwise.privacy.owner import Owner, Seal, Seen, key_name

texts = st.lists(st.text(max_size=4), max_size=4)


@given(one=st.lists(texts, max_size=4), other=st.lists(texts, max_size=4))
def test_two_chains_have_one_head_only_if_they_are_one(one: list[list[str]], other: list[list[str]]) -> None:
    """So no entry can be changed, cut in two, moved or left out."""

    def end(entries: list[list[str]]) -> Head:
        head = Head()
        for entry in entries:
            head = head.then(*entry)
        return head

    assert (end(one) == end(other)) == (one == other)
    assert end(one).count == len(one)


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "keys"
    assert Owner(folder).key() is None and not folder.exists(), "reading makes none"
    racing = (
        "import os, sys; from pathlib import Path; from recordwise.privacy.owner import Owner\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        os.write(1, Owner(Path(sys.argv[1])).own_key().hex().encode() + b'\\n')\n"
        "        os._exit(0)\n"
        "for _ in range(4):\n"
        "    os.wait()"
    )
    told = subprocess.run([sys.executable, "-c", racing, str(folder)], capture_output=True, text=True, check=True)
    assert len(told.stdout.split()) == 4 and len(set(told.stdout.split())) == 1
    key = Owner(folder).own_key()
    assert len(key) == 32 and key.hex() not in key_name(key)
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
        (folder / "ledger.key").chmod(0o640)
        with pytest.raises(LedgerFault, match="must be for its owner alone"):
            Owner(folder).key()


@pytest.mark.parametrize("content", ["", "zz", "ab" * 31, "ab" * 33, "é"])
def test_a_damaged_key_is_never_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "ledger.key").write_text(content)
    (tmp_path / "ledger.key").chmod(0o600)
    with pytest.raises(LedgerFault, match="is damaged: restore it"):
        Owner(tmp_path).own_key()
    assert (tmp_path / "ledger.key").read_text() == content


def test_a_seal_is_one_head_s_of_one_account(tmp_path: Path) -> None:
    owner, head = Owner(tmp_path / "one"), Head().then("entry")
    seal = owner.sign("account", head)
    assert owner.signed("account", head, seal) is True
    assert owner.signed("other", head, seal) is False
    assert owner.signed("account", Head(), seal) is False
    assert owner.signed("account", head, Seal(seal.key, "0" * 64)) is False
    stranger = Owner(tmp_path / "two")
    assert stranger.signed("account", head, seal) is None, "no key"
    stranger.own_key()
    assert stranger.signed("account", head, seal) is None, "another key"


def test_later_heads_replace_earlier_ones_and_a_place_is_remembered_until_the_account_moves(tmp_path: Path) -> None:
    owner, heads = Owner(tmp_path), [Head()]
    for name in "abc":
        heads.append(heads[-1].then(name))
    for before, head in pairwise(heads):
        owner.note("account", "here", head)
        owner.note("account", "here", before)
        found = owner.seen("account")
        assert found is not None and found.head == head, "an earlier one changes nothing"
    assert owner.seen_at("here") == owner.seen("account")
    owner.note("account", "there", heads[-1])
    assert owner.seen_at("here") is None and owner.seen_at("there") is not None
    owner.note("account", "elsewhere", heads[1])
    assert owner.seen("account") == Seen("account", "elsewhere", heads[-1]), "moved, and no younger"
    owner.note("account", "there", heads[-1])
    owner.note("another", "here", heads[1])
    here = owner.seen_at("here")
    assert here is not None and here.account == "another"
    owner.note("account", "there", heads[1], anew=True)
    found = owner.seen("account")
    assert found is not None and found.head == heads[1], "unless its owner says so"
    assert owner.forget("there") and not owner.forget("there")
    assert owner.seen_at("there") is None and owner.seen("account") is not None


def test_a_folder_that_cannot_be_kept_names_the_cure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerFault, match="name a folder in RECORDWISE_KEYS"):
        Owner(tmp_path / "file" / "keys").own_key()


def test_damaged_memory_is_a_fault(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    owner.note("account", "here", Head().then("a"))
    (tmp_path / "seen" / "account").write_text("{}")
    with pytest.raises(LedgerFault, match="is damaged"):
        owner.seen_at("here")


def test_the_folder_is_the_one_that_is_named_or_lies_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "named"))
    assert Owner.here().folder == tmp_path / "named"
    monkeypatch.delenv("RECORDWISE_KEYS")
    monkeypatch.setenv("HOME", str(tmp_path))
    if os.name == "posix":
        assert Owner.here().folder == tmp_path / ".config" / "recordwise"
