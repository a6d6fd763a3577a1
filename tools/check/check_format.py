"""Checks that clang-format 14 would change no C++ file."""

import subprocess
import sys

from source_tree import Tree, argument_parser, report


def check(tree: Tree, clang_format: str) -> list[str]:
    files = tree.cpp()
    if not files:
        return []
    done = subprocess.run(
        [clang_format, "--dry-run", "--style=file", *files],
        cwd=tree.root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return [f"{clang_format}: {done.stderr.strip()}"]
    first: dict[str, str] = {}
    for line in done.stderr.splitlines():
        if "clang-format-violations" in line:
            path, number = line.split(":")[:2]
            first.setdefault(path, number)
    return [
        f"{path}:{number}: not formatted; run {clang_format} -i {path}"
        for path, number in sorted(first.items())
    ]


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("--clang-format", default="clang-format-14")
    options = parser.parse_args()
    sys.exit(report("format", check(Tree(options.root), options.clang_format)))
