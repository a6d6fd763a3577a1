"""Starts preprocd in a folder of its own and watches it from outside."""

import dataclasses
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable

import grpc

import health_pb2

BIN_DIR = os.environ.get("PREPROCD_BIN_DIR", "build/bin")
# Sanitizers keep freed memory and start threads of their own.
SANITIZED = os.environ.get("PREPROCD_SANITIZED", "") != ""
# Bounds of waiting, seconds; far above what is needed on a busy machine.
START_BOUND_S = 60.0
STOP_BOUND_S = 60.0
SETTLE_BOUND_S = 30.0
STEP_MS = 5
# gRPC makes timer and executor threads when it finds all of them busy, and
# lets them go when it likes; it never has more than this many extra.
GRPC_THREADS = 4


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a process holds, as /proc says."""

    fds: int
    threads: int
    resident_bytes: int


def read_usage(pid: int) -> Usage:
    fields = {}
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            key, _, value = line.partition(":")
            fields[key] = value.split()
    return Usage(
        fds=len(os.listdir(f"/proc/{pid}/fd")),
        threads=int(fields["Threads"][0]),
        resident_bytes=int(fields["VmRSS"][0]) * 1024,
    )


def lowest_free_fd(pid: int) -> int:
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return min(set(range(len(used) + 1)) - used)


class Daemon:
    """One preprocd. Use as a context manager: leaving stops it with SIGTERM
    and checks that it exits 0."""

    def __init__(
        self,
        *arguments: str,
        folder: str | None = None,
        environment: dict[str, str] | None = None,
        command: list[str] | None = None,
    ) -> None:
        self._own_folder = folder is None
        # Short: the sockets' paths must fit into sun_path.
        self.folder = folder or tempfile.mkdtemp(prefix="ppd-")
        self._arguments = arguments
        self._environment = environment or {}
        self._command = command
        self._log = tempfile.TemporaryFile()
        self._pidfd = -1
        self.process: subprocess.Popen | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def direct_path(self) -> str:
        return os.path.join(self.folder, "direct.sock")

    @property
    def grpc_address(self) -> str:
        return "unix:" + os.path.join(self.folder, "grpc.sock")

    @property
    def admin_address(self) -> str:
        return "unix:" + os.path.join(self.folder, "admin.sock")

    def spawn(self) -> None:
        command = self._command or [os.path.join(BIN_DIR, "preprocd")]
        self.process = subprocess.Popen(
            [*command, "--runtime-dir", self.folder, *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, **self._environment},
        )
        self._pidfd = os.pidfd_open(self.process.pid)

    def start(self) -> "Daemon":
        self.spawn()
        try:
            self.await_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait_until(
        self, condition: Callable[[], bool], bound_s: float, what: str
    ) -> None:
        """Looks again and again; ends at once when the process ends."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        end = time.monotonic() + bound_s
        while not condition():
            if poll.poll(STEP_MS):
                raise AssertionError(
                    f"preprocd ended ({self.process.wait()}) while waiting "
                    f"for {what}:\n{self.log()}"
                )
            if time.monotonic() > end:
                raise AssertionError(
                    f"not after {bound_s} s: {what}\n{self.log()}"
                )

    def accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            try:
                probe.connect(self.direct_path)
            except OSError:
                return False
        return True

    def health(self, address: str | None = None, service: str = "") -> str:
        with grpc.insecure_channel(address or self.grpc_address) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            try:
                reply = check(
                    health_pb2.HealthCheckRequest(service=service), timeout=10
                )
            except grpc.RpcError as error:
                return error.code().name
            names = health_pb2.HealthCheckResponse.ServingStatus
            return names.Name(reply.status)

    def await_ready(self) -> None:
        self.wait_until(self.accepts, START_BOUND_S, "direct.sock")
        self.wait_until(
            lambda: self.health() == "SERVING", START_BOUND_S, "SERVING"
        )

    def usage(self) -> Usage:
        return read_usage(self.pid)

    def wait_exit(self) -> int:
        try:
            return self.process.wait(STOP_BOUND_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"preprocd does not end:\n{self.log()}"
            ) from None

    def stop(self) -> None:
        """SIGTERM; the exit status must be 0 and the sockets gone."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.wait_exit()
            if code != 0:
                raise AssertionError(f"preprocd exited {code}:\n{self.log()}")
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL if it still runs; removes the folder if it is ours."""
        if self._log.closed:
            return
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self._log.close()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Daemon":
        return self.start()

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.stop()
            return
        print(f"--- log of preprocd\n{self.log()}")
        self.kill()


class DescriptorLimit:
    """Leaves the daemon no free descriptor while the scope lasts."""

    def __init__(self, daemon: Daemon) -> None:
        self._pid = daemon.pid
        self._old = (0, 0)

    def __enter__(self) -> None:
        self._old = resource.prlimit(self._pid, resource.RLIMIT_NOFILE)
        resource.prlimit(
            self._pid,
            resource.RLIMIT_NOFILE,
            (lowest_free_fd(self._pid), self._old[1]),
        )

    def __exit__(self, *_) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._old)


class DaemonTest(unittest.TestCase):
    """One daemon for all cases of a class; each must leave it as it was."""

    daemon: Daemon
    arguments: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(*cls.arguments).start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.daemon.stop()

    def run(self, result=None):
        failed = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > failed:
            print(f"--- log of preprocd after {self.id()}\n{self.daemon.log()}")
        return result
