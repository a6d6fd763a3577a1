"""Proves that every checker passes a good sample and fails on a bad one."""

import argparse
import os
import sys
import tempfile
import unittest

import check_docs
import check_format
import check_headers
import check_protos
import check_registered
import check_rooms
import check_text
from source_tree import Tree

TOOLS = argparse.Namespace(compiler="g++", clang_format="clang-format-14")

ROOMS = """
[room."low"]
level = 0
target = "low"
may_include = []
[room."high"]
level = 1
target = "high"
may_include = ["low"]
tests_may_include = ["other"]
[room."other"]
level = 1
may_include = []
[[foreign]]
name = "Pictures"
headers = ["png.h", "jpeg/"]
only_in = ["low/"]
"""


class CheckerTest(unittest.TestCase):
    """Each sample is a small tree in a folder of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def tree(self, files: dict[str, str]) -> Tree:
        for name, text in files.items():
            path = os.path.join(self.root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return Tree(self.root)

    def assert_one(self, errors: list[str], *parts: str) -> None:
        self.assertEqual(len(errors), 1, errors)
        for part in parts:
            self.assertIn(part, errors[0])


class RoomsTest(CheckerTest):
    def errors(self, files: dict[str, str], table: str = ROOMS) -> list[str]:
        return check_rooms.check(
            self.tree({"low/a.h": "\n", check_rooms.TABLE: table, **files})
        )

    def test_good_tree_is_clean(self) -> None:
        good = {
            "high/b.cc": '#include "low/a.h"\n#include <vector>\n',
            "low/p.cc": "#include <png.h>\n",
            "high/CMakeLists.txt": (
                "preprocd_room(NAME high SOURCES b.cc DEPS preprocd::low)\n"
            ),
        }
        self.assertEqual(self.errors(good), [])

    def test_upward_include(self) -> None:
        bad = {"low/b.cc": '#include "high/b.h"\n', "high/b.h": "\n"}
        self.assert_one(self.errors(bad), "low/b.cc:1", "low may not include")

    def test_sideways_include_is_for_tests_only(self) -> None:
        files = {"other/o.h": "\n", "high/b_test.cc": '#include "other/o.h"\n'}
        self.assertEqual(self.errors(files), [])
        files["high/b.cc"] = '#include "other/o.h"\n'
        self.assert_one(self.errors(files), "high/b.cc:1", "(room other)")

    def test_include_of_nothing(self) -> None:
        bad = {"high/b.cc": '#include "low/gone.h"\n'}
        self.assert_one(self.errors(bad), "no file of the tree")

    def test_own_header_in_angle_brackets(self) -> None:
        self.assert_one(
            self.errors({"high/b.cc": "#include <low/a.h>\n"}), "is ours"
        )

    def test_foreign_header_outside_its_home(self) -> None:
        for header in ("png.h", "jpeg/lib.h"):
            bad = {"high/b.cc": f"#include <{header}>\n"}
            self.assert_one(self.errors(bad), header, "only allowed in low/")

    def test_file_without_a_room(self) -> None:
        self.assert_one(self.errors({"lost/b.cc": "\n"}), "belongs to no room")

    def test_table_with_a_cycle(self) -> None:
        table = ROOMS.replace(
            "may_include = []", 'may_include = ["high"]', 1
        )
        self.assert_one(self.errors({}, table), "low (level 0) lists high")

    def test_forbidden_link(self) -> None:
        bad = {
            "low/CMakeLists.txt": (
                "preprocd_room(NAME low SOURCES a.cc\n  DEPS preprocd::high)\n"
            )
        }
        self.assert_one(self.errors(bad), "low may not link high")


class DocsTest(CheckerTest):
    def errors(self, text: str) -> list[str]:
        files = {"README.md": text, "tools/demo": "\n", "tools/a.h": "\n"}
        return check_docs.check(self.tree(files))

    def test_good_document_is_clean(self) -> None:
        text = (
            "`tools/demo`, `tools/*.h`, `tools/a.{h,h}`, `a + b`, `build/x`,\n"
            "[demo](tools/demo), [site](https://example.org/x)\n"
            "```\n`tools/in_a_code_block`\n```\n"
        )
        self.assertEqual(self.errors(text), [])

    def test_path_that_is_gone(self) -> None:
        self.assert_one(self.errors("\nsee `tools/gone`\n"), "README.md:2")

    def test_folder_that_is_gone(self) -> None:
        self.assert_one(self.errors("`moved/away.h`\n"), "moved/away.h")

    def test_one_of_braces_is_gone(self) -> None:
        self.assert_one(self.errors("`tools/a.{h,cc}`\n"), "tools/a.cc")

    def test_link_to_nothing(self) -> None:
        self.assert_one(self.errors("[x](tools/gone)\n"), "link to nothing")

    def test_link_with_a_line_number(self) -> None:
        self.assert_one(self.errors("[x](tools/a.h#L3)\n"), "line number")


class ProtosTest(CheckerTest):
    GOOD = (
        "// File.\n"
        'syntax = "proto3";\n'
        "// Message.\n"
        "message M {\n"
        "  // Field, pixels.\n"
        "  repeated int32 f = 1;\n"
        "  // Either.\n"
        "  oneof o {\n"
        "    // Map, bytes.\n"
        "    a.B g = 2;\n"
        "  }\n"
        "}\n"
        "// Enum.\n"
        "enum E {\n"
        "  // Nothing.\n"
        "  E_NONE = 0;\n"
        "}\n"
        "// Service.\n"
        "service S {\n"
        "  // Call.\n"
        "  rpc C(M) returns (M);\n"
        "}\n"
    )

    def errors(self, text: str) -> list[str]:
        return check_protos.check(self.tree({"a.proto": text}))

    def test_good_file_is_clean(self) -> None:
        self.assertEqual(self.errors(self.GOOD), [])

    def test_each_missing_comment_is_found(self) -> None:
        lines = self.GOOD.splitlines()
        comments = [i for i, l in enumerate(lines) if "//" in l]
        for i in comments:
            without = lines[:i] + [""] + lines[i + 1 :]
            errors = self.errors("\n".join(without) + "\n")
            self.assertEqual(len(errors), 1, (lines[i], errors))

    def test_trailing_comment(self) -> None:
        text = self.GOOD.replace("f = 1;", "f = 1;  // pixels")
        self.assert_one(self.errors(text), "trailing comment")


class TextTest(CheckerTest):
    HEADER = "#ifndef A_B_H_\n#define A_B_H_\n\n#endif  // A_B_H_\n"

    def errors(self, files: dict[str, str]) -> list[str]:
        return check_text.check(self.tree(files))

    def test_good_files_are_clean(self) -> None:
        body = "int Sum(int a) {\n" + "  ++a;\n" * 68 + "}\n"
        self.assertEqual(
            self.errors({"a/b.h": self.HEADER, "a/b.cc": body}), []
        )

    def test_guard_of_another_path(self) -> None:
        self.assert_one(self.errors({"a/c.h": self.HEADER}), "A_C_H_")

    def test_toggle_of_a_header_for_every_target(self) -> None:
        good = "#if defined(A_C_INL_H_) == defined(HWY_TARGET_TOGGLE)\n"
        rest = "#define A_C_INL_H_\n#endif  // toggle\n"
        self.assertEqual(self.errors({"a/c-inl.h": f"// Thread-safety: safe.\n{good}{rest}"}), [])
        self.assert_one(
            self.errors({"a/c-inl.h": f"#if 1\n{rest}"}), "expected #if defined(A_C_INL_H_) =="
        )

    def test_no_guard(self) -> None:
        self.assert_one(self.errors({"a/c.h": "int x;\n"}), "no include guard")

    def test_long_file(self) -> None:
        self.assert_one(self.errors({"a.cc": "//\n" * 701}), "701 lines")

    def test_long_function(self) -> None:
        body = "int Sum(int a) {\n" + "  ++a;\n" * 69 + "}\n"
        self.assert_one(self.errors({"a.cc": body}), "a.cc:1", "71 lines")

    def test_banned_file_type_and_folder_names(self) -> None:
        self.assert_one(self.errors({"x_util.cc": "//\n"}), "util")
        os.remove(os.path.join(self.root, "x_util.cc"))
        self.assert_one(
            self.errors({"a.cc": "class BufferManager {};\n"}), "BufferManager"
        )
        os.remove(os.path.join(self.root, "a.cc"))
        self.assert_one(self.errors({"common/a.cc": "//\n"}), "common")

    def test_leftover_marker(self) -> None:
        self.assert_one(self.errors({"a.cc": "// TO" + "DO: x\n"}), "marker")

    def test_wide_line_tab_space_and_empty_file(self) -> None:
        bad = {
            "a.cc": "//" + "x" * 79 + "\n",
            "b.cc": "\t//\n",
            "c.cc": "// \n",
            "d.cc": "",
        }
        self.assertEqual(len(self.errors(bad)), 4)


class RegisteredTest(CheckerTest):
    GOOD = {
        "a/README.md": "# a\n",
        "a/x.cc": "",
        "a/y_test.cc": "",
        "a/z_test.cc": "",
        "a/CMakeLists.txt": (
            "add(x.cc)\nforeach(name y z)\n  add(${name}_test.cc)\n"
            "endforeach()\n"
        ),
    }

    def errors(self, files: dict[str, str]) -> list[str]:
        return check_registered.check(self.tree({**self.GOOD, **files}))

    def test_good_tree_is_clean(self) -> None:
        self.assertEqual(self.errors({}), [])

    def test_forgotten_sources(self) -> None:
        for name in ("a/w_test.cc", "a/w_fuzzer.cc", "a/w_test.py", "a/w.cc"):
            self.assert_one(self.errors({name: ""}), name, "not named in")
            os.remove(os.path.join(self.root, name))

    def test_name_within_another_name(self) -> None:
        self.assert_one(self.errors({"a/est.cc": ""}), "a/est.cc")

    def test_room_without_a_readme(self) -> None:
        bad = {"b/h.h": "", "b/CMakeLists.txt": ""}
        self.assert_one(self.errors(bad), "b/README.md")


class FormatTest(CheckerTest):
    def errors(self, text: str) -> list[str]:
        files = {".clang-format": "BasedOnStyle: Google\n", "a.cc": text}
        return check_format.check(self.tree(files), TOOLS.clang_format)

    def test_good_file_is_clean(self) -> None:
        self.assertEqual(self.errors("int x = 1;\n"), [])

    def test_bad_file(self) -> None:
        self.assert_one(self.errors("int y = 1;\nint   x=1;\n"), "a.cc:2")


class HeadersTest(CheckerTest):
    def errors(self, files: dict[str, str]) -> list[str]:
        cache = os.path.join(self.root, "cache.json")
        return check_headers.check(
            self.tree(files), TOOLS.compiler, [], ["-std=c++20"], cache, 2
        )

    def test_header_that_needs_another_first(self) -> None:
        files = {
            "a.h": "#ifndef A_H\n#define A_H\nstruct A {};\n#endif\n",
            "b.h": "#ifndef B_H\n#define B_H\ninline A b;\n#endif\n",
        }
        self.assert_one(self.errors(files), "b.h:1", "does not compile alone")

    def test_header_without_a_guard(self) -> None:
        self.assert_one(self.errors({"a.h": "struct A {};\n"}), "redefinition")

    def test_cache_notices_a_change_below(self) -> None:
        files = {
            "a.h": "#pragma once\nstruct A {};\n",
            "b.h": '#pragma once\n#include "a.h"\ninline A b;\n',
        }
        self.assertEqual(self.errors(files), [])
        files["a.h"] = "#pragma once\nstruct C {};\n"
        self.assert_one(self.errors(files), "b.h:1")
        # A failure is not remembered as good.
        self.assert_one(self.errors(files), "b.h:1")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default=TOOLS.compiler)
    parser.add_argument("--clang-format", default=TOOLS.clang_format)
    TOOLS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
