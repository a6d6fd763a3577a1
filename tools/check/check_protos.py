"""Checks that every element of the contract has a comment above it.

Elements: messages, enums, services, rpcs, oneofs, fields, enum values. A
trailing comment does not count, and is refused: it ends up beside the wrong
line as soon as somebody inserts one.
"""

import re

from source_tree import Tree, run_check

ELEMENT = re.compile(
    r"^\s*(?:"
    r"(?P<block>message|enum|service|oneof|rpc)\s+(?P<name>\w+)"
    r"|(?:repeated\s+|optional\s+)?(?:map<[^>]+>|[\w.]+)\s+(?P<field>\w+)"
    r"\s*=\s*\d+.*;"
    r"|(?P<value>[A-Z][A-Z0-9_]*)\s*=\s*-?\d+.*;"
    r")"
)
SKIPPED = re.compile(r"^\s*(syntax|package|import|option|reserved|returns)\b")


def file_errors(tree: Tree, path: str) -> list[str]:
    errors = []
    lines = tree.lines(path)
    if not lines or not lines[0].startswith("// "):
        errors.append(f"{path}:1: the file does not begin with a comment")
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        if not code.strip() or SKIPPED.match(code):
            continue
        if "//" in line:
            errors.append(f"{path}:{number}: trailing comment")
        match = ELEMENT.match(code)
        if not match:
            continue
        above = lines[number - 2].strip() if number > 1 else ""
        if not above.startswith("//") or above.lstrip("/ ") == "":
            name = match["name"] or match["field"] or match["value"]
            errors.append(f"{path}:{number}: no comment above {name}")
    return errors


def check(tree: Tree) -> list[str]:
    errors = []
    for path in tree.ending(".proto"):
        errors += file_errors(tree, path)
    return errors


if __name__ == "__main__":
    run_check(__doc__, "protos", check)
