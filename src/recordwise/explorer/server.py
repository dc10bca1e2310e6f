"""The page, served to this machine alone.

Guarantees:
  - it listens on 127.0.0.1; a request that names another host is refused, so no name that leads here helps a stranger;
  - every address begins with a token of 256 random bits; without it there is nothing to see;
  - it is never a stranger's page that asks: a request that says it comes from another origin is refused;
  - it reads nothing on request but the job file and its ledger, and writes nothing but a new job file beside the old.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from recordwise.errors import InvalidInput, RecordwiseError
from recordwise.explorer.exploration import Exploration
from recordwise.explorer.grid import At
from recordwise.explorer.page import as_data, policy, render

log = logging.getLogger("recordwise.explorer")

HERE = "127.0.0.1"
MOST_BYTES = 1000  # of what a page sends
SECONDS = 30.0  # that a request may take to arrive


class PageServer(ThreadingHTTPServer):
    """Serves one exploration until it is closed."""

    daemon_threads = True

    def __init__(self, exploration: Exploration, port: int = 0) -> None:
        self.exploration = exploration
        self.token = secrets.token_urlsafe(32)
        super().__init__((HERE, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it was answered is no fault; of others the kind is noted."""
        fault = sys.exc_info()[1]
        if not isinstance(fault, ConnectionError | TimeoutError):
            log.warning("a request could not be answered (%s)", type(fault).__name__)

    @property
    def host(self) -> str:
        return f"{HERE}:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = SECONDS
    server_version, sys_version = "Recordwise", ""
    always: ClassVar[dict[str, str]] = {
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    def do_GET(self) -> None:
        match self._asked():
            case ("", _):
                page = render(self.server.exploration.document(travels=False))
                self._answer(HTTPStatus.OK, page, "text/html; charset=utf-8")
            case ("cells", query):
                self._tell(lambda: self._cells(query))

    def do_POST(self) -> None:
        match self._asked():
            case ("job", _):
                self._tell(self._write)
            case ("", _) | ("cells", _):
                self._answer(HTTPStatus.METHOD_NOT_ALLOWED)

    def _asked(self) -> tuple[str, Mapping[str, list[str]]] | None:
        """What is asked for; None where it may not be, and then that has been said."""
        address = urlsplit(self.path)
        _, token, *rest = [*address.path.split("/"), ""]
        name = "/".join(rest).rstrip("/")
        if self._from_elsewhere(followed=name == ""):
            self._answer(HTTPStatus.FORBIDDEN)
        elif not hmac.compare_digest(token.encode(), self.server.token.encode()) or name not in ("", "cells", "job"):
            self._answer(HTTPStatus.NOT_FOUND)
        else:
            return name, parse_qs(address.query)
        return None

    def _from_elsewhere(self, *, followed: bool) -> bool:
        """Whether another host is named, or another page asks; a link to the page itself may be `followed`."""
        hosts, origin = self.headers.get_all("Host", []), self.headers.get("Origin")
        if hosts not in ([self.server.host], [f"localhost:{self.server.server_address[1]}"]):
            return True
        site = self.headers.get("Sec-Fetch-Site", "none")
        return origin not in (None, f"http://{hosts[0]}") or not (followed or site in ("same-origin", "none"))

    def _tell(self, what: Callable[[], Mapping[str, Any]]) -> None:
        """An answer as JSON; a refusal is one line."""
        try:
            self._answer(HTTPStatus.OK, as_data(what()), "application/json")
        except RecordwiseError as refusal:
            self._answer(HTTPStatus.BAD_REQUEST, as_data({"refused": str(refusal)}), "application/json")
        except OSError as fault:
            said = f"the job file cannot be written: {fault.strerror or fault}"
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, as_data({"refused": said}), "application/json")

    def _cells(self, query: Mapping[str, list[str]]) -> dict[str, Any]:
        have, at = query.get("have", ["0"])[0], query.get("at", [""])[0]
        if not have.isdecimal() or len(have) > 9:
            raise InvalidInput("have must be a whole number")
        places = self._places(at.split(",")) if at else None
        return {"cells": self.server.exploration.cells(int(have), places)}

    def _write(self) -> dict[str, Any]:
        size = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json" or not size.isdecimal() or int(size) > MOST_BYTES:
            raise InvalidInput("what is chosen comes as a little JSON")
        try:
            sent = json.loads(self.rfile.read(int(size)))
        except ValueError as fault:
            raise InvalidInput("what is chosen is not JSON") from fault
        at = sent.get("at") if isinstance(sent, dict) else None
        place = self.server.exploration.write(self._places(at if isinstance(at, list) else []))
        return {"file": place.name, "folder": str(place.parent)}

    def _places(self, given: list[Any]) -> At:
        """Places on the grid, or a refusal."""
        grid = self.server.exploration.grid
        sizes = [len(grid.offers), len(grid.queries), len(grid.epsilons)]
        texts = [str(one) for one in given]
        if len(texts) != len(sizes) or not all(text.isdecimal() and len(text) < 6 for text in texts):
            raise InvalidInput("a choice is three places on the grid")
        trust, size, epsilon = (int(text) for text in texts)
        if not (trust < sizes[0] and size < sizes[1] and epsilon < sizes[2]):
            raise InvalidInput("a choice must lie on the grid")
        return trust, size, epsilon

    def _answer(self, status: HTTPStatus, body: str = "", kind: str = "text/plain") -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in self.always.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{policy(live=True)}; frame-ancestors 'none'")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: an address holds the token."""
