"""GL that is not there: no library, switched off, a device of another name.
The daemon says why, once in its log and in its status, and goes on without."""

import json
import os
import subprocess
import tempfile
import unittest

import grpc
import health_pb2
import numpy
from daemon_fixture import BIN_DIR, Daemon
from pictures import encode, make_picture


def preprocctl(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            os.path.join(BIN_DIR, "preprocctl"),
            *("--runtime-dir", daemon.folder, "--json", *arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


class GlAbsentTest(unittest.TestCase):
    def backend(self, daemon: Daemon) -> dict:
        done = preprocctl(daemon, "status")
        self.assertEqual(done.returncode, 0, done.stderr)
        return next(
            b for b in json.loads(done.stdout)["backends"] if b["name"] == "gl"
        )

    def health(self, daemon: Daemon, service: str) -> int:
        with grpc.insecure_channel(daemon.grpc_address) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=(
                    health_pb2.HealthCheckRequest.SerializeToString
                ),
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            request = health_pb2.HealthCheckRequest(service=service)
            return check(request, timeout=30).status

    def assert_goes_on_without(self, daemon: Daemon, reason: str) -> None:
        gl = self.backend(daemon)
        self.assertFalse(gl.get("available", False))
        self.assertIn(reason, gl["detail"])
        self.assertEqual(
            self.health(daemon, "preprocd.backend.gl"),
            health_pb2.HealthCheckResponse.NOT_SERVING,
        )
        lines = [
            line
            for line in daemon.log().splitlines()
            if "backend.unavailable" in line and "gl" in line
        ]
        self.assertEqual(len(lines), 1, daemon.log())
        self.assertIn(reason, lines[0])
        self.assertEqual(
            self.health(daemon, ""), health_pb2.HealthCheckResponse.SERVING
        )
        with tempfile.TemporaryDirectory() as folder:
            photo = os.path.join(folder, "photo.png")
            result = os.path.join(folder, "result.npy")
            with open(photo, "wb") as file:
                file.write(encode(make_picture(40, 30), "PNG"))
            convert = ("convert", photo, "-o", result, "--size", "20x16")
            done = preprocctl(daemon, *convert)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(
                json.loads(done.stdout)["report"]["backend"], "cpu"
            )
            self.assertEqual(numpy.load(result).shape, (16, 20, 3))
            # Asked for by name it is refused, with the same reason.
            done = preprocctl(daemon, *convert, "--backend", "gl")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stdout)

    def test_without_the_library(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            # What the loader finds first, and cannot load.
            for name in ("libEGL.so.1", "libGLESv2.so.2"):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(b"not a library")
            with Daemon(environment={"LD_LIBRARY_PATH": folder}) as daemon:
                self.assert_goes_on_without(daemon, "libEGL.so.1")

    def test_switched_off(self) -> None:
        with Daemon(environment={"PREPROCD_GL_ENABLED": "0"}) as daemon:
            self.assert_goes_on_without(daemon, "switched off")

    def test_a_device_of_another_name(self) -> None:
        with Daemon() as daemon:
            if not self.backend(daemon).get("available", False):
                self.skipTest("no GL on this machine")
        environment = {"PREPROCD_GL_DEVICE": "renderD4711"}
        with Daemon(environment=environment) as daemon:
            self.assert_goes_on_without(daemon, "renderD4711")


if __name__ == "__main__":
    unittest.main()
