"""How long `import recordwise` and the command's help take, in a fresh process.

python -m benchmarks.start
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.provenance import row, seconds, write


def main() -> None:
    bare = _seconds("pass")
    rows = []
    for name, code in {
        "import recordwise": "import recordwise",
        "import recordwise.device": "import recordwise.device",
        "import recordwise.cli": "import recordwise.cli",
        "from recordwise import PrivateDistiller": "from recordwise import PrivateDistiller",
    }.items():
        peers = {
            "python alone": bare,
            "import numpy": _seconds("import numpy"),
            "import sklearn": _seconds("import sklearn"),
        }
        taken = _seconds(code)
        rows.append(row(name, size={"repeats": 5}, ours=taken, peers=peers, unit="s", packages=("scikit-learn",)))
        print(f"{name:<42} {taken:.2f} s (python alone {bare:.2f} s)")
    write("start", rows)


def _seconds(code: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeats=5)


if __name__ == "__main__":
    main()
