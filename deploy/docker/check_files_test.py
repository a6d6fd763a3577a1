"""Parses Dockerfile and compose.yaml and checks what they name.

No image is built: that needs an engine. Exit 77 without python3-yaml.
"""

import os
import re
import shlex
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INSTRUCTIONS = {
    "FROM", "RUN", "COPY", "WORKDIR", "USER", "VOLUME", "STOPSIGNAL",
    "HEALTHCHECK", "ENTRYPOINT", "CMD",
}


def read(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest) with continuation lines joined."""
    lines = [
        line
        for line in read("Dockerfile").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [tuple(line.split(None, 1)) for line in joined]


class DockerfileTest(unittest.TestCase):
    def test_instructions_are_known(self) -> None:
        for name, rest in instructions():
            self.assertIn(name, INSTRUCTIONS, rest)

    def test_copied_files_exist(self) -> None:
        for name, rest in instructions():
            words = shlex.split(rest)
            if name != "COPY" or words[0].startswith("--from"):
                continue
            for source in words[:-1]:
                path = os.path.join(ROOT, source)
                self.assertTrue(os.path.exists(path), source)

    def test_stages_that_are_copied_from_exist(self) -> None:
        text = "\n".join(f"{n} {r}" for n, r in instructions())
        stages = set(re.findall(r" AS (\w+)", text))
        for stage in re.findall(r"--from=(\w+)", text):
            self.assertIn(stage, stages)

    def test_it_runs_as_nobody_special(self) -> None:
        users = [rest for name, rest in instructions() if name == "USER"]
        self.assertEqual(users[-1:], ["preprocd"])


class ComposeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.compose = yaml.safe_load(read("compose.yaml"))
        self.services = self.compose["services"]

    def test_a_daemon_and_two_clients(self) -> None:
        self.assertIn("preprocd", self.services)
        clients = [
            name
            for name, service in self.services.items()
            if "preprocd" in service.get("depends_on", {})
        ]
        self.assertEqual(len(clients), 2)

    def test_everybody_shares_the_directory_never_a_socket(self) -> None:
        for name, service in self.services.items():
            targets = {
                mount["target"]: mount for mount in service["volumes"]
            }
            self.assertEqual(set(targets), {"/run/preprocd"}, name)
            source = targets["/run/preprocd"]["source"]
            self.assertIn(source, self.compose["volumes"], name)
            self.assertNotIn(".sock", str(service["volumes"]), name)

    def test_nobody_has_more_than_it_needs(self) -> None:
        for name, service in self.services.items():
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertEqual(service["network_mode"], "none", name)
            self.assertTrue(service["read_only"], name)

    def test_clients_are_in_the_group_of_the_sockets(self) -> None:
        gid = re.search(r"groupadd .*--gid (\d+) preprocd", read("Dockerfile"))
        for name, service in self.services.items():
            if name != "preprocd":
                self.assertEqual(service["user"].split(":")[1], gid[1], name)

    def test_the_build_finds_its_files(self) -> None:
        build = self.services["preprocd"]["build"]
        context = os.path.normpath(os.path.join(HERE, build["context"]))
        self.assertEqual(context, ROOT)
        path = os.path.join(context, build["dockerfile"])
        self.assertTrue(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
