"""Where a ledger lies, and what of it may be seen: never a password, however it is spelled."""

from __future__ import annotations

import logging
import traceback
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

import pytest

from recordwise import PrivateDistiller
from recordwise.account import Account
from recordwise.errors import InvalidInput, LedgerFault, RecordwiseError, hidden, shown
from recordwise.federation.policy import Policy
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.ledger.place import Place
from recordwise.privacy.ledger.store import Store

SECRET = "hu%sh p@ss/wörd?&=:#'"
WRITTEN = quote(SECRET, safe="")
HOST = "127.0.0.1:1"  # where nobody answers
SPELLINGS = [
    f"postgresql://me:{WRITTEN}@{HOST}/x",
    f"postgres://me:{WRITTEN}@{HOST}/x",
    f"postgresql+psycopg://me:{WRITTEN}@{HOST}/x",
    f"postgresql://:{WRITTEN}@{HOST}/x",
    f"postgresql://me@{HOST}/x?password={WRITTEN}",
    f"postgresql://me@{HOST}/x?PASSWORD={WRITTEN}&connect_timeout=1",
    f"postgresql://me:{WRITTEN}@{HOST}/x?sslpassword={WRITTEN}&password={WRITTEN}",
    f"postgresql://me:{WRITTEN}@{HOST}/x?nonsense=1",
    f"postgresql://me:{WRITTEN}@host:port/x",
    f"postgresql://me:hush p@ss@{HOST}/x",
    f"postgresql://me@{HOST}/x?user=me&password={WRITTEN}&password={WRITTEN}",
    f"mysql://me:{WRITTEN}@{HOST}/x",
    "host=127.0.0.1 port=1 user=me password=hush",
    "user=me password='hu sh p@ss'",
    "dbname=x password = hush",
]
TOLD = (SECRET, WRITTEN, "hu%sh", "hu%25sh", "hush", "hu sh", "wörd", "w%C3%B6rd", "p@ss", "p%40ss", "@ss")


def told(text: str) -> list[str]:
    return [part for part in TOLD if part in text]


@pytest.mark.parametrize("place", SPELLINGS)
def test_no_spelling_of_a_password_is_seen(place: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RecordwiseError) as refused:
        Ledger.open(place)
    seen = {
        "message": str(refused.value),
        "arguments": repr(refused.value.args),
        "traceback": "".join(traceback.format_exception(refused.value)).replace(repr(place)[1:-1], ""),
        "log": caplog.text,
    }
    assert {name: told(text) for name, text in seen.items() if told(text)} == {}
    assert "\n" not in str(refused.value)
    try:
        store = Store(place, wait=1)
    except InvalidInput:
        return
    engines = (store._reader.engine, store._writer.engine)
    for shown_as in (store.name, repr(store.place), repr(Place.of(place)), repr(engines), repr(engines[0].url)):
        assert told(shown_as) == []
    assert "127.0.0.1" in store.name, "the rest is"


@pytest.mark.parametrize("place", SPELLINGS)
def test_settings_show_no_password(place: str) -> None:
    settings = {"ledger": place, "budget": "b" * 100}
    distiller = PrivateDistiller(epsilon=2.0, account=settings, classes=list(range(300)), encoder="x" * 700)
    for text in (repr(distiller), str(distiller), distiller._html_repr(), str(distiller._repr_mimebundle_())):
        assert told(hidden_constants(text)) == []
    assert "epsilon=2.0" in repr(distiller)
    for account in (Account(ledger=place), PrivateDistiller(account=Account(ledger=place))):
        assert told(repr(account)) == []
    assert told(repr(Policy(epsilon=Fraction(1), ledger=place))) == []


def hidden_constants(text: str) -> str:
    """Without what every page of scikit-learn holds."""
    return text.replace("@supports", "").replace("@media", "")


def test_the_driver_is_given_what_nobody_sees() -> None:
    place = Place.of(f"postgresql://me:{WRITTEN}@{HOST}/x?sslpassword=other&application_name=ours")
    assert place.secrets == {"password": SECRET, "sslpassword": "other"}
    assert place.url is not None and place.url.password is None
    assert place.name == f"postgresql://me:***@{HOST}/x?application_name=ours"
    assert place.scrubbed(f"no {SECRET}, no {WRITTEN}, no other") == "no ***, no ***, no ***"


def test_a_password_of_the_environment_is_scrubbed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hush")
    assert Place.of(f"postgresql://me@{HOST}/x").scrubbed("hush now") == "*** now"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("see postgresql://me:a:b@c@host/x now", "see postgresql://me:***@host/x now"),
        ("postgresql://me@host/x?password=abc&sslmode=require", "postgresql://me@host/x?password=***&sslmode=require"),
        ("user=me Password = 'a b' host=h", "user=me Password = *** host=h"),
        ("https://example.org/a@b and me@example.org:80", "https://example.org/a@b and me@example.org:80"),
    ],
)
def test_a_line_of_ours_hides_what_looks_like_a_password(text: str, safe: str) -> None:
    assert hidden(text) == safe == hidden(safe)
    assert str(LedgerFault(text)) == str(InvalidInput(text)) == safe
    assert hidden(shown(text)) == shown(text)


def test_a_ledger_is_known_by_its_file_whatever_leads_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "there" / "ledger.sqlite")
    monkeypatch.chdir(tmp_path)
    places = [link, "link.sqlite", "there/../there/ledger.sqlite", f"sqlite:///{link}"]
    assert {Place.of(place).remembered for place in places} == {str(tmp_path / "there" / "ledger.sqlite")}
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(LedgerFault, match=r"loop"):
        Ledger.open(tmp_path / "loop")
