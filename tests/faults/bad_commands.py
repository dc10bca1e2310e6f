"""Commands with options that are missing, odd or contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

ODD = ["", "x", "nan", "inf", "-1", "0", "1e999", "9" * 400, str(10**15), "\u202e", "1/3", "é"]
PLACES = ["missing", "pipe", "socket.npz", "folder.npz", "empty.npz", "/dev/null", "x" * 5000, "loop", "a\nb"]
PLAN = {"--num-records": "100", "--num-classes": "3", "--epsilon": "1"}
AMPLIFY = {"--senders": "1000", "--epsilon0": "1"}
AUDIT = {"--epsilon": "1", "--num-queries": "2", "--num-classes": "2", "--trials": "100", "--num-records": "20"}
OPEN = {"--budget": "us", "--epsilon": "1"}


def options(held: dict[str, str]) -> list[str]:
    return [part for pair in held.items() for part in pair]


def bad_commands() -> Iterator[tuple[str, ...]]:
    """The arguments of each."""
    yield ()
    yield ("nothing",)
    yield ("--nothing",)
    yield ("--version", "--nothing")
    for group in ("ledger", "coordinator", "silo", "shuffler"):
        yield (group,)
        yield (group, "nothing")
        yield (group, "--nothing")
    for command in ("run", "plan", "amplify", "report", "audit", "demo"):
        yield (command, "--nothing")
    for command in ("run", "plan", "amplify", "report"):
        yield (command,)
    for command in ("open", "show"):
        yield ("ledger", command)
    for place in PLACES:
        yield ("run", place)
        yield ("report", place)
        yield ("audit", "--job", place)
        yield ("ledger", "show", place)
        yield ("ledger", "open", place, *options(OPEN))
        yield ("coordinator", "run", place)
        yield ("coordinator", "register", "fresh", place)
        yield ("silo", "run", place, "--address", "localhost:1", "--certificate", place)
        yield ("silo", "offers", place)
        yield ("silo", "approve", place, "0" * 16)
        yield ("shuffler", "run", place, "--address", "x", "--certificate", place)
    for start, held, more in (
        (("plan",), PLAN, ("--delta", "--num-queries", "--votes-per-record", "--purity", "--pool-size", "--rounds")),
        (
            ("plan",),
            PLAN,
            ("--labels-per-record", "--neighbours", "--trust", "--mechanism", "--parties", "--colluding"),
        ),
        (("amplify",), AMPLIFY, ("--delta", "--target", "--mechanism", "--num-queries", "--votes-per-record")),
        (("audit",), AUDIT, ("--delta", "--confidence", "--rounds", "--trust", "--mechanism", "--parties")),
        (("ledger", "open", "ledger.sqlite"), OPEN, ("--delta", "--neighbours")),
    ):
        for name in (*held, *more):
            yield (*start, *options({key: value for key, value in held.items() if key != name}))
            for odd in ODD:
                yield (*start, *options({**held, name: odd}))
    for name in ("", "a\nb", 'a"b', "x" * 65, "\u202e"):
        yield ("silo", "init", "made", "--name", name)
        yield ("shuffler", "init", "made", "--name", name)
        yield ("silo", "approve", "made", name)
    for address in ("", "localhost", "localhost:x", "localhost:99999", ":"):
        yield ("silo", "run", "made", "--address", address, "--certificate", "missing")
        yield ("coordinator", "run", "made", "--port", address)
    for place in ("pipe", "empty.npz", "loop"):
        yield ("coordinator", "init", place)
        yield ("silo", "init", place, "--name", "north")
        yield ("report", "folder.npz", "--out", place)
