"""A daemon's life: start, second start, reload, drain, death, activation."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

from daemon_fixture import BIN_DIR, SETTLE_BOUND_S, Daemon
from direct_client import ALL_SEALS, READ, DirectClient, GrpcClient
from direct_client import RequestError, SessionEnded
from direct_client import make_empty_memfd, make_memfd
from pictures import buffer_request, encode, inline_request, make_picture
from preproc.v1 import admin_pb2

SOCKETS = ("admin.sock", "direct.sock", "grpc.sock")
EXIT_OTHER, EXIT_USAGE = 1, 2


def run_daemon(*arguments: str, environment: dict | None = None):
    """A daemon that is expected to end by itself."""
    return subprocess.run(
        [os.path.join(BIN_DIR, "preprocd"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **(environment or {})},
    )


class LifecycleTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ppd-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.jpeg = encode(make_picture(120, 90), "JPEG")

    def assert_serves(self, daemon: Daemon) -> None:
        with DirectClient(daemon.direct_path) as client:
            reply = client.convert(inline_request(self.jpeg, 32, 24))
            self.assertEqual(len(reply.inline_bytes), 32 * 24 * 3)

    def test_sockets_and_their_modes(self) -> None:
        with Daemon(folder=self.folder) as daemon:
            self.assert_serves(daemon)
            modes = {
                name: stat.S_IMODE(
                    os.stat(os.path.join(self.folder, name)).st_mode
                )
                for name in SOCKETS
            }
            self.assertEqual(modes["admin.sock"], 0o600)
            self.assertEqual(modes["direct.sock"] & 0o007, 0)
            self.assertEqual(modes["grpc.sock"] & 0o007, 0)
            self.assertEqual(daemon.health(), "SERVING")
            self.assertEqual(
                daemon.health(daemon.admin_address, "preproc.v1.Admin"),
                "SERVING",
            )
        # SIGTERM and exit status 0 are checked by leaving the scope.
        for name in SOCKETS:
            self.assertNotIn(name, os.listdir(self.folder))

    def test_runtime_dir_from_the_environment(self) -> None:
        other = os.path.join(self.folder, "made")
        daemon = Daemon(
            folder=self.folder, environment={"PREPROCD_RUNTIME_DIR": other}
        )
        # The flag wins over the environment.
        with daemon:
            self.assertFalse(os.path.exists(other))
            self.assert_serves(daemon)

    def test_second_daemon_ends_and_does_not_disturb_the_first(self) -> None:
        with Daemon(folder=self.folder) as daemon:
            with DirectClient(daemon.direct_path) as client:
                inodes = {
                    name: os.stat(os.path.join(self.folder, name)).st_ino
                    for name in SOCKETS
                }
                second = run_daemon("--runtime-dir", self.folder)
                self.assertEqual(second.returncode, EXIT_OTHER, second.stderr)
                self.assertTrue(second.stderr.strip() or second.stdout.strip())
                self.assertEqual(client.echo(b"still"), b"still")
                for name in SOCKETS:
                    path = os.path.join(self.folder, name)
                    self.assertEqual(os.stat(path).st_ino, inodes[name])
                self.assert_serves(daemon)

    def test_sockets_of_a_killed_daemon_are_replaced(self) -> None:
        first = Daemon(folder=self.folder).start()
        first.kill()
        for name in SOCKETS:
            self.assertIn(name, os.listdir(self.folder))
        with Daemon(folder=self.folder) as second:
            self.assert_serves(second)

    def test_file_that_is_no_socket_is_not_replaced(self) -> None:
        path = os.path.join(self.folder, "direct.sock")
        with open(path, "w", encoding="ascii") as file:
            file.write("mine\n")
        done = run_daemon("--runtime-dir", self.folder)
        self.assertIn(done.returncode, (EXIT_OTHER, EXIT_USAGE), done.stderr)
        self.assertIn(path, done.stderr)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "mine\n")

    def test_usage_and_configuration_errors_exit_2(self) -> None:
        config = os.path.join(self.folder, "bad.toml")
        for text in (
            "this is not toml",
            "[limits]\nno_such_key = 1\n",
            '[limits]\nsessions = "many"\n',
        ):
            with open(config, "w", encoding="ascii") as file:
                file.write(text)
            with self.subTest(config=text):
                done = run_daemon(
                    *("--runtime-dir", self.folder, "--config", config)
                )
                self.assertEqual(done.returncode, EXIT_USAGE, done.stderr)
        for arguments in (
            ("--no-such-option",),
            ("--config", os.path.join(self.folder, "gone.toml")),
            ("--log-level", "shouting"),
            ("--backend", "no_such_backend"),
        ):
            with self.subTest(arguments=arguments):
                done = run_daemon("--runtime-dir", self.folder, *arguments)
                self.assertEqual(done.returncode, EXIT_USAGE, done.stderr)
                self.assertTrue(done.stderr.strip())

    def test_version(self) -> None:
        done = run_daemon("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\d+\.\d+\.\d+")

    def test_sighup_reloads_and_keeps_serving(self) -> None:
        config = os.path.join(self.folder, "preprocd.toml")
        with open(config, "w", encoding="ascii") as file:
            file.write("")
        with Daemon("--config", config, folder=self.folder) as daemon:
            with DirectClient(daemon.direct_path) as client:
                for text in ("", "this is not toml", ""):
                    with open(config, "w", encoding="ascii") as file:
                        file.write(text)
                    os.kill(daemon.pid, signal.SIGHUP)
                    self.assertEqual(client.echo(b"on"), b"on")
                self.assert_serves(daemon)
                self.assertTrue(daemon.alive())

    def test_sigterm_finishes_what_runs(self) -> None:
        side = 2048
        with Daemon(folder=self.folder) as daemon:
            with DirectClient(daemon.direct_path) as client:
                content = encode(make_picture(side, side), "JPEG")
                source = client.keep(make_memfd(content, ALL_SEALS))
                client.register(1, source, READ)
                result = client.keep(make_empty_memfd(side * side * 3))
                client.register(2, result)
                request = client.send(
                    "convert", buffer_request(1, 2, side, side)
                )
                self.await_running(daemon)
                os.kill(daemon.pid, signal.SIGTERM)
                reply, _ = client.answer(request)
                self.assertEqual(reply.layout.width, side)
            # Not stopped again: a second signal would cut the drain short.
            self.assertEqual(daemon.wait_exit(), 0, daemon.log())

    def await_running(self, daemon: Daemon) -> None:
        def running() -> bool:
            with GrpcClient(daemon.admin_address) as admin:
                reply = admin.call(
                    "preproc.v1.Admin/Status",
                    admin_pb2.StatusRequest(),
                    admin_pb2.StatusReply,
                )
            return reply.running > 0

        daemon.wait_until(running, SETTLE_BOUND_S, "running work")

    def test_drain_call_ends_the_daemon_with_0(self) -> None:
        daemon = Daemon(folder=self.folder).start()
        with DirectClient(daemon.direct_path) as client:
            with GrpcClient(daemon.admin_address) as admin:
                admin.call(
                    "preproc.v1.Admin/Drain",
                    admin_pb2.DrainRequest(timeout_ms=5000),
                    admin_pb2.DrainReply,
                )
            frame, _ = client.receive()
            self.assertTrue(frame.HasField("going_away"), frame)
            # What is asked for now is refused, or the connection is gone.
            try:
                client.convert(inline_request(self.jpeg, 32, 24))
                self.fail("a draining daemon took work")
            except RequestError as error:
                self.assertEqual(error.code, "UNAVAILABLE")
            except (SessionEnded, BrokenPipeError):
                pass
        self.assertEqual(daemon.wait_exit(), 0, daemon.log())
        daemon.kill()

    def test_readiness_is_told_to_systemd(self) -> None:
        path = os.path.join(self.folder, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(60)
            daemon = Daemon(
                folder=self.folder, environment={"NOTIFY_SOCKET": path}
            )
            daemon.spawn()
            try:
                text = b""
                while b"READY=1" not in text:
                    text += notify.recv(4096) + b"\n"
                # From here on nobody may be turned away.
                self.assertTrue(daemon.accepts())
                self.assertEqual(daemon.health(), "SERVING")
                os.kill(daemon.pid, signal.SIGTERM)
                while b"STOPPING=1" not in text:
                    text += notify.recv(4096) + b"\n"
                self.assertEqual(daemon.wait_exit(), 0, daemon.log())
            finally:
                daemon.kill()

    # Socket activation.

    def activated(self, names: list[str], kinds: dict[str, int]) -> Daemon:
        """A daemon that gets listening sockets as systemd passes them."""
        return Daemon(
            folder=self.folder,
            command=[
                sys.executable,
                "-B",
                os.path.join(os.path.dirname(__file__), "socket_launcher.py"),
                *(
                    f"{name.removesuffix('.sock')}="
                    f"{self.folder}/{name}={kinds[name]}"
                    for name in names
                ),
                "--",
                os.path.join(BIN_DIR, "preprocd"),
            ],
        )

    KINDS = {
        "grpc.sock": int(socket.SOCK_STREAM),
        "direct.sock": int(socket.SOCK_SEQPACKET),
        "admin.sock": int(socket.SOCK_STREAM),
    }

    def test_socket_activation(self) -> None:
        for order in (SOCKETS, SOCKETS[::-1]):
            with self.activated(list(order), self.KINDS) as daemon:
                self.assert_serves(daemon)
                self.assertEqual(daemon.health(daemon.admin_address), "SERVING")
            # The sockets are the launcher's: stopping must not remove them.
            self.assertEqual(
                sorted(set(os.listdir(self.folder)) & set(SOCKETS)),
                list(SOCKETS),
            )
            for name in SOCKETS:
                os.unlink(os.path.join(self.folder, name))

    def test_activation_with_a_socket_of_the_wrong_type(self) -> None:
        kinds = {**self.KINDS, "direct.sock": int(socket.SOCK_STREAM)}
        daemon = self.activated(list(SOCKETS), kinds)
        daemon.spawn()
        try:
            self.assertNotEqual(daemon.wait_exit(), 0, daemon.log())
        finally:
            daemon.kill()


if __name__ == "__main__":
    unittest.main()
