"""Lists the project's files and reports violations.

Files are those git knows or would add; without git (a source archive) every
file outside build folders. Paths are relative to the root, with '/'.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterable

CPP_ENDINGS = (".h", ".cc")


class Tree:
    """The files below one root."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.files = sorted(self._list())
        self._lines: dict[str, list[str]] = {}

    def _list(self) -> Iterable[str]:
        # A sample folder inside another repository must not list that one.
        if os.path.exists(os.path.join(self.root, ".git")):
            done = subprocess.run(
                ["git", "-c", "safe.directory=*", "-C", self.root]
                + ["ls-files", "-z", "--cached", "--others"]
                + ["--exclude-standard"],
                capture_output=True,
                check=False,
            )
            if done.returncode == 0:
                names = done.stdout.decode().split("\0")
                return {n for n in names if n and os.path.isfile(self.path(n))}
        return self._walk()

    def _walk(self) -> Iterable[str]:
        for folder, folders, names in os.walk(self.root):
            folders[:] = [
                f
                for f in folders
                if f not in (".git", "__pycache__")
                and f != "build"
                and not f.startswith("build-")
            ]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def ending(self, *endings: str) -> list[str]:
        return [f for f in self.files if f.endswith(endings)]

    def cpp(self) -> list[str]:
        return self.ending(*CPP_ENDINGS)

    def text(self, name: str) -> str:
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def lines(self, name: str) -> list[str]:
        if name not in self._lines:
            self._lines[name] = self.text(name).splitlines()
        return self._lines[name]


def default_root() -> str:
    return os.path.dirname(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    )


def argument_parser(doc: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--root", default=default_root())
    return parser


def report(what: str, errors: list[str]) -> int:
    """Prints the errors; the exit status for main."""
    for error in errors:
        print(error)
    if errors:
        print(f"{what}: {len(errors)} violation(s)")
        return 1
    print(f"{what}: clean")
    return 0


def run_check(doc: str, what: str, check: Callable[[Tree], list[str]]) -> None:
    arguments = argument_parser(doc).parse_args()
    sys.exit(report(what, check(Tree(arguments.root))))
