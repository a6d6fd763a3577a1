"""Checks that nothing lies about unused.

Every folder with C++ or proto sources or tests has a README.md; every source
file is named in its folder's CMakeLists.txt; every test, fuzzer, benchmark
and Python test is registered there.
"""

import os
import re

from source_tree import Tree, run_check

SOURCE = re.compile(r"\.(cc|proto)$|_test\.py$")
LOOP = re.compile(r"foreach\(\w+\s+([^)]*)\)(.*?)endforeach", re.DOTALL)
# Folders whose files are described by a README.md further up.
COVERED = ("proto/preproc/", "client/cpp/include/", "tests/corpus/")


def readme_errors(tree: Tree) -> list[str]:
    folders = {
        os.path.dirname(f)
        for f in tree.files
        if re.search(r"\.(cc|h|proto|py)$", f)
    }
    errors = []
    for folder in sorted(folders - {""}):
        if folder.startswith(COVERED) or f"{folder}/".startswith(COVERED):
            continue
        if not tree.exists(f"{folder}/README.md"):
            errors.append(f"{folder}/README.md:1: the room has no README.md")
    return errors


def build_file(tree: Tree, path: str) -> str | None:
    """The nearest CMakeLists.txt at or above the file's folder."""
    folder = os.path.dirname(path)
    while True:
        name = os.path.join(folder, "CMakeLists.txt")
        if tree.exists(name):
            return name
        if not folder:
            return None
        folder = os.path.dirname(folder)


def build_text(tree: Tree, build: str) -> str:
    """The build file with the .cmake files beside it."""
    folder = os.path.dirname(build)
    beside = [
        f
        for f in tree.ending(".cmake")
        if os.path.dirname(f) == folder
    ]
    return "\n".join(tree.text(f) for f in [build, *beside])


def named(text: str, stem: str, ending: str) -> bool:
    """`stem.ending` is written out, or the stem stands in a list to which a
    loop adds the ending (${name}_test.cc, ${name}.cc)."""
    if re.search(rf"(?<![\w.]){re.escape(stem + ending)}(?![\w.])", text):
        return True
    for suffix in ("_test" + ending, ending):
        if not (stem + ending).endswith(suffix):
            continue
        base = (stem + ending)[: -len(suffix)]
        for loop in LOOP.finditer(text):
            if base in loop[1].split() and re.search(
                r"\$\{\w+\}" + re.escape(suffix), loop[2]
            ):
                return True
    return False


def registration_errors(tree: Tree) -> list[str]:
    errors = []
    texts: dict[str, str] = {}
    for path in tree.files:
        if not SOURCE.search(path):
            continue
        build = build_file(tree, path)
        if build is None:
            errors.append(f"{path}:1: no CMakeLists.txt above it")
            continue
        if build not in texts:
            texts[build] = build_text(tree, build)
        stem, ending = os.path.splitext(os.path.basename(path))
        if not named(texts[build], stem, ending):
            # Shared sources, for example the fuzzers' replay program.
            elsewhere = any(
                path in tree.text(f) for f in tree.ending(".cmake")
            )
            if not elsewhere:
                errors.append(f"{path}:1: not named in {build}")
    return errors


def check(tree: Tree) -> list[str]:
    return readme_errors(tree) + registration_errors(tree)


if __name__ == "__main__":
    run_check(__doc__, "registered", check)
