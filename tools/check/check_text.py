"""Checks sizes, names, leftover markers and include guards.

Limits: files of code at most 700 lines, functions at namespace level at most
70, lines of C++ at most 80 columns. Functions are found by their shape under
clang-format: they begin in column 0 and end with a brace there.
"""

import os
import re

from source_tree import Tree, run_check

MAX_LINES = 700
MAX_COLUMNS = 80
MAX_FUNCTION_LINES = 70
CODE_ENDINGS = (".h", ".cc", ".py", ".proto", ".cmake", "CMakeLists.txt")
BANNED = {"util", "utils", "helper", "helpers", "common", "manager", "misc"}
# Put together here, so that this file does not contain them.
MARKERS = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b"
)
TYPE = re.compile(r"^\s*(?:class|struct|enum(?:\s+class)?)\s+(?:\w+\s+)*?(\w+)")
CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
NO_FUNCTION = re.compile(
    r"^(namespace|class|struct|union|enum|extern|using|typedef|template"
    r"|constexpr|const|static const|inline constexpr|#|//|/\*|\}|\))"
)
# Files without an ending that are programs.
PROGRAM = re.compile(r"^(tools/\w+|\.ci/\w+)$")


def words_of(name: str) -> set[str]:
    parts = re.split(r"[_\-.]", name)
    return {w.lower() for p in parts for w in CAMEL.findall(p)}


def name_errors(tree: Tree) -> list[str]:
    errors = []
    seen: set[str] = set()
    for path in tree.files:
        for part in path.split("/"):
            bad = words_of(part) & BANNED
            if bad and part not in seen:
                seen.add(part)
                errors.append(f"{path}:1: banned word in a name: {min(bad)}")
    for path in tree.cpp():
        for number, line in enumerate(tree.lines(path), 1):
            match = TYPE.match(line)
            bad = words_of(match[1]) & BANNED if match else set()
            if bad:
                errors.append(
                    f"{path}:{number}: banned word in a type: {match[1]}"
                )
    return errors


def expected_guard(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"


def guard_errors(tree: Tree, path: str) -> list[str]:
    names = {expected_guard(path)}
    installed = path.partition("/include/")[2]
    if installed:
        names.add(expected_guard(installed))
    lines = [
        (number, line)
        for number, line in enumerate(tree.lines(path), 1)
        if line.startswith("#")
    ]
    if len(lines) < 3:
        return [f"{path}:1: no include guard"]
    if path.endswith("-inl.h"):
        # Included once for each of Highway's targets: its toggle instead.
        guard = f"#if defined({expected_guard(path)}) =="
        number, line = lines[0]
        return [] if line.startswith(guard) else [f"{path}:{number}: expected {guard}"]
    for (number, line), word in zip(lines, ("#ifndef", "#define")):
        if line.split() not in [[word, name] for name in names]:
            return [f"{path}:{number}: expected {word} {min(names)}"]
    if not lines[-1][1].startswith("#endif  // "):
        return [f"{path}:{lines[-1][0]}: expected #endif  // {min(names)}"]
    return []


def function_errors(tree: Tree, path: str) -> list[str]:
    errors = []
    start = 0
    for number, line in enumerate(tree.lines(path), 1):
        if line.startswith("}"):
            if start and number - start + 1 > MAX_FUNCTION_LINES:
                errors.append(
                    f"{path}:{start}: function of {number - start + 1} lines "
                    f"> {MAX_FUNCTION_LINES}"
                )
            start = 0
        elif not start and re.match(r"^[A-Za-z_]", line):
            if not NO_FUNCTION.match(line) and "(" in line:
                start = number
        # Declarations and functions that begin and end on one line.
        if start and line.endswith((";", "}")) and not line.startswith(" "):
            start = 0
    return errors


def text_errors(tree: Tree, path: str) -> list[str]:
    errors = []
    lines = tree.lines(path)
    if len(lines) > MAX_LINES and not path.endswith(".proto"):
        errors.append(f"{path}:{MAX_LINES}: {len(lines)} lines > {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        match = MARKERS.search(line)
        if match:
            errors.append(f"{path}:{number}: leftover marker {match[1]}")
        if line != line.rstrip():
            errors.append(f"{path}:{number}: space at the end of the line")
        if "\t" in line:
            errors.append(f"{path}:{number}: tab")
        if path.endswith((".h", ".cc")) and len(line) > MAX_COLUMNS:
            errors.append(f"{path}:{number}: {len(line)} columns")
    if not lines:
        errors.append(f"{path}:1: empty file")
    return errors


def check(tree: Tree) -> list[str]:
    errors = name_errors(tree)
    for path in tree.files:
        name = os.path.basename(path)
        if name.endswith(CODE_ENDINGS) or PROGRAM.match(path):
            errors += text_errors(tree, path)
        if name.endswith(".cc"):
            errors += function_errors(tree, path)
        if name.endswith(".h"):
            errors += guard_errors(tree, path)
    return errors


if __name__ == "__main__":
    run_check(__doc__, "text", check)
