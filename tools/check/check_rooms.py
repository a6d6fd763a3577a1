"""Checks that every include goes where tools/check/rooms.toml allows.

Also: that the table itself has no cycle (levels), that each room's CMake
target links only what the room may include, and that foreign headers stay in
their homes.
"""

import os
import re
import tomllib

from source_tree import Tree, run_check

TABLE = "tools/check/rooms.toml"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TEST_FILE = re.compile(r"_(test|fuzzer|benchmark|fixture|support)\.(cc|h)$")
ROOM_CALL = re.compile(
    r"preprocd_room\(\s*NAME\s+(\w+)(.*?)\)", re.DOTALL | re.ASCII
)


class Rooms:
    """The table, with the questions that the check asks."""

    def __init__(self, table: dict) -> None:
        self.rooms: dict[str, dict] = table["room"]
        self.foreign: list[dict] = table.get("foreign", [])
        self.by_target = {
            room["target"]: name
            for name, room in self.rooms.items()
            if "target" in room
        }

    def room_of(self, path: str) -> str | None:
        folder = os.path.dirname(path)
        while folder:
            if folder in self.rooms:
                return folder
            folder = os.path.dirname(folder)
        return None

    def allowed(self, room: str, test: bool) -> set[str]:
        lists = ["may_include"] + (["tests_may_include"] if test else [])
        return {room}.union(*(self.rooms[room].get(k, []) for k in lists))

    def table_errors(self) -> list[str]:
        errors = []
        for name, room in self.rooms.items():
            for other in sorted(self.allowed(name, True) - {name}):
                if other not in self.rooms:
                    errors.append(f"{TABLE}: {name} lists unknown {other}")
                elif other not in room["may_include"]:
                    continue  # tests only; a program cannot close a cycle
                elif self.rooms[other]["level"] >= room["level"]:
                    errors.append(
                        f"{TABLE}: {name} (level {room['level']}) lists "
                        f"{other} (level {self.rooms[other]['level']})"
                    )
        return errors


def target_of(tree: Tree, rooms: Rooms, quoted: str) -> str | None:
    """The room that a quoted include leads to; None: no such file."""
    if quoted.endswith(".grpc.pb.h"):
        return "proto/stubs"
    if quoted.endswith(".pb.h"):
        return "proto/messages"
    if tree.exists(quoted):
        return rooms.room_of(quoted) or ""
    if tree.exists(f"client/cpp/include/{quoted}"):
        return "client/cpp"
    return None


def foreign_errors(rooms: Rooms, where: str, path: str, header: str) -> list:
    errors = []
    for family in rooms.foreign:
        if not header.startswith(tuple(family["headers"])):
            continue
        homes = tuple(family["only_in"])
        endings = tuple(family.get("endings", [""]))
        if not path.startswith(homes) or not path.endswith(endings):
            errors.append(
                f"{where}: <{header}> ({family['name']}) is only allowed in "
                f"{', '.join(homes)}"
                + (f" {'|'.join(endings)}" if family.get("endings") else "")
            )
    return errors


def include_errors(tree: Tree, rooms: Rooms, path: str) -> list[str]:
    room = rooms.room_of(path)
    if room is None:
        return [f"{path}:1: belongs to no room of {TABLE}"]
    errors = []
    allowed = rooms.allowed(room, bool(TEST_FILE.search(path)))
    for number, line in enumerate(tree.lines(path), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        where = f"{path}:{number}"
        kind, header = match.groups()
        if kind == "<" and target_of(tree, rooms, header) is not None:
            errors.append(f'{where}: <{header}> is ours; write "{header}"')
        errors += foreign_errors(rooms, where, path, header)
        if kind == "<":
            continue
        target = target_of(tree, rooms, header)
        if target is None:
            # Quoted foreign headers: "absl/...", "gtest/...".
            if "/" not in header or header.split("/")[0] in {
                name.split("/")[0] for name in rooms.rooms
            }:
                errors.append(f'{where}: "{header}" is no file of the tree')
        elif target not in allowed:
            errors.append(
                f'{where}: {room} may not include "{header}" (room {target})'
            )
    return errors


def link_errors(tree: Tree, rooms: Rooms) -> list[str]:
    """DEPS of a room's target outside the room's list."""
    errors = []
    for path in tree.ending("CMakeLists.txt"):
        for name, rest in ROOM_CALL.findall(tree.text(path)):
            room = rooms.by_target.get(name)
            if room is None:
                errors.append(f"{path}:1: target {name} is not in {TABLE}")
                continue
            if room != os.path.dirname(path):
                errors.append(f"{path}:1: target {name} belongs to {room}")
            allowed = rooms.allowed(room, False)
            wanted = {
                rooms.by_target.get(d, f"preprocd::{d}")
                for d in re.findall(r"preprocd::(\w+)", rest)
            }
            if "preproc_messages" in rest:
                wanted.add("proto/messages")
            if "preproc_grpc" in rest:
                wanted.add("proto/stubs")
            for other in sorted(wanted - allowed):
                errors.append(f"{path}:1: {name} may not link {other}")
    return errors


def check(tree: Tree) -> list[str]:
    with open(tree.path(TABLE), "rb") as file:
        rooms = Rooms(tomllib.load(file))
    errors = rooms.table_errors()
    for path in tree.cpp():
        errors += include_errors(tree, rooms, path)
    return errors + link_errors(tree, rooms)


if __name__ == "__main__":
    run_check(__doc__, "rooms", check)
