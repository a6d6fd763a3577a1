"""Checks that every path named in the documents exists.

Looked at in *.md: `backticked` words that look like a path of the tree, and
the targets of relative links. Words with placeholders (<x>, *, {a,b}) are
expanded or skipped; line anchors are refused because they rot.
"""

import glob
import os
import re

from source_tree import Tree, run_check

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")
# Folders that a build or a run makes; a document may name them.
MADE = ("build/", "build-", "/", "~", "$")
BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def expand(word: str) -> list[str]:
    """`a.{h,cc}` as ["a.h", "a.cc"]."""
    match = BRACES.search(word)
    if not match:
        return [word]
    words = []
    for part in match[1].split(","):
        words += expand(word[: match.start()] + part + word[match.end() :])
    return words


def looks_like_path(tree: Tree, word: str) -> bool:
    if word.startswith(MADE) or any(c in word for c in " <>=()'\"|:@\\%…"):
        return False
    if "/" not in word:
        return False
    top = word.split("/")[0]
    return top in (".", "..") or os.path.isdir(tree.path(top)) or (
        # A folder that was renamed away, or a misspelt one, with a file in it.
        re.search(r"\.(h|cc|py|proto|md|toml|cmake|txt)$", word) is not None
        and not re.search(r"\.pb\.h$", word)
    )


def found(tree: Tree, document: str, word: str) -> bool:
    here = os.path.dirname(document)
    for base in ("", here):
        pattern = os.path.normpath(tree.path(os.path.join(base, word)))
        if "*" in word:
            if glob.glob(pattern):
                return True
        elif os.path.exists(pattern):
            return True
    # Headers of the installed include folder and of the contract.
    return any(
        tree.exists(f"{folder}/{word}") for folder in ("client/cpp/include", "proto")
    )


def document_errors(tree: Tree, document: str) -> list[str]:
    errors = []
    fenced = False
    for number, line in enumerate(tree.lines(document), 1):
        where = f"{document}:{number}"
        if FENCE.match(line):
            fenced = not fenced
            continue
        if fenced:
            continue
        for word in CODE.findall(line):
            for part in expand(word.strip()):
                part = part.rstrip(".,;")
                if looks_like_path(tree, part) and not found(
                    tree, document, part
                ):
                    errors.append(f"{where}: no such path: {part}")
        for target in LINK.findall(line):
            if re.match(r"^[a-z]+:", target) or target.startswith("#"):
                continue
            path, _, anchor = target.partition("#")
            if re.match(r"^L\d+", anchor):
                errors.append(f"{where}: link with a line number: {target}")
            if not found(tree, document, path):
                errors.append(f"{where}: link to nothing: {target}")
    return errors


def check(tree: Tree) -> list[str]:
    errors = []
    for document in tree.ending(".md"):
        errors += document_errors(tree, document)
    return errors


if __name__ == "__main__":
    run_check(__doc__, "docs", check)
