"""Checks that every header compiles alone, and twice.

Results are remembered in --cache by a hash over the header, everything of
ours that it includes, the flags and the compiler, so that only what changed is
compiled again.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

from source_tree import Tree, argument_parser, report

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


class Headers:
    """Hashes of headers with what they include; files are read once."""

    def __init__(self, tree: Tree, folders: list[str], salt: str) -> None:
        self._folders = [tree.root, *folders]
        self._salt = salt
        self._texts: dict[str, tuple[str, list[str]]] = {}

    def _find(self, quoted: str) -> str | None:
        for folder in self._folders:
            path = os.path.join(folder, quoted)
            if os.path.isfile(path):
                return path
        return None

    def _read(self, path: str) -> tuple[str, list[str]]:
        if path not in self._texts:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            found = [self._find(q) for q in INCLUDE.findall(text)]
            self._texts[path] = (
                hashlib.sha256(text.encode()).hexdigest(),
                [f for f in found if f],
            )
        return self._texts[path]

    def key(self, path: str) -> str:
        seen: set[str] = set()
        left = [path]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += self._read(one)[1]
        parts = [self._salt] + [f"{p} {self._read(p)[0]}" for p in sorted(seen)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def compile_alone(tree: Tree, command: list[str], path: str) -> str:
    """Empty when it compiles; else the compiler's first lines."""
    done = subprocess.run(
        command,
        input=f'#include "{path}"\n#include "{path}"\n',
        cwd=tree.root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    lines = [l for l in done.stderr.splitlines() if "error:" in l]
    return lines[0] if lines else done.stderr.strip().splitlines()[-1]


def check(
    tree: Tree,
    compiler: str,
    folders: list[str],
    flags: list[str],
    cache: str | None,
    jobs: int,
) -> list[str]:
    command = [compiler, "-fsyntax-only", "-x", "c++", *flags, "-I", tree.root]
    for folder in folders:
        command += ["-isystem", folder]
    command.append("-")
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True
    ).stdout
    hashes = Headers(tree, folders, version + " ".join(command))
    good: set[str] = set()
    if cache and os.path.exists(cache):
        with open(cache, encoding="utf-8") as file:
            good = set(json.load(file))
    keys = {h: hashes.key(tree.path(h)) for h in tree.ending(".h")}
    todo = [h for h, key in keys.items() if key not in good]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        answers = list(
            pool.map(lambda h: compile_alone(tree, command, h), todo)
        )
    bad = {h: a for h, a in zip(todo, answers) if a}
    if cache:
        # Keys of headers that are gone or changed are dropped.
        kept = sorted(key for h, key in keys.items() if h not in bad)
        with open(cache + ".new", "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(cache + ".new", cache)
    print(f"{len(keys)} headers, {len(todo)} compiled")
    return [f"{h}:1: does not compile alone: {a}" for h, a in bad.items()]


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--flags", default="-std=c++20")
    parser.add_argument("--cache")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    sys.exit(
        report(
            "headers",
            check(
                Tree(options.root),
                options.compiler,
                options.include,
                shlex.split(options.flags),
                options.cache,
                options.jobs,
            ),
        )
    )
