"""What the hostile tests share: a daemon, a good session, and the proof after
every case that the session goes on and nothing is left behind."""

import os

from daemon_fixture import GRPC_THREADS, SANITIZED, SETTLE_BOUND_S
from daemon_fixture import DaemonTest
from direct_client import ALL_SEALS, READ, DirectClient, GrpcClient
from direct_client import RequestError, make_empty_memfd, make_memfd
from direct_client import read_memfd
from pictures import buffer_request, encode, inline_request, make_picture
from preproc.v1 import admin_pb2

WIDTH, HEIGHT = 97, 61
RESULT_BYTES = 32 * 24 * 3
# What a malloc arena and thread stacks may keep after the worst case here.
RESIDENT_MARGIN_BYTES = 96 << 20


class HostileTest(DaemonTest):
    """Buffer 1 is a good JPEG, buffer 2 a destination, in every case."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.picture = make_picture(WIDTH, HEIGHT)
        cls.jpeg = encode(cls.picture, "JPEG")
        cls.png = encode(cls.picture, "PNG")
        # Everything that is made once and kept: threads, pools, arenas.
        with DirectClient(cls.daemon.direct_path) as client:
            cls.register_good(client)
            request = buffer_request(1, 2, 32, 24)
            for _ in range(8):
                cls.expected = client.convert(request)
        with GrpcClient(cls.daemon.grpc_address) as client:
            for _ in range(8):
                client.convert(inline_request(cls.jpeg, 32, 24))
        cls.await_sessions(0)
        cls.baseline = cls.daemon.usage()

    @classmethod
    def register_good(cls, client: DirectClient) -> None:
        source = client.keep(make_memfd(cls.jpeg, ALL_SEALS, "good-source"))
        client.register(1, source, READ)
        client.result = client.keep(make_empty_memfd(RESULT_BYTES))
        client.register(2, client.result)

    @classmethod
    def status(cls) -> admin_pb2.StatusReply:
        with GrpcClient(cls.daemon.admin_address) as client:
            return client.call(
                "preproc.v1.Admin/Status",
                admin_pb2.StatusRequest(),
                admin_pb2.StatusReply,
            )

    @classmethod
    def await_sessions(cls, count: int) -> None:
        def reached() -> bool:
            status = cls.status()
            return status.sessions == count and status.running == 0

        cls.daemon.wait_until(reached, SETTLE_BOUND_S, f"{count} sessions")

    def setUp(self) -> None:
        self.client = DirectClient(self.daemon.direct_path)
        self.register_good(self.client)

    def tearDown(self) -> None:
        self.assert_usable()
        self.client.close()
        self.await_sessions(0)
        self.assert_nothing_left()

    def assert_usable(self, client: DirectClient | None = None) -> None:
        client = client or self.client
        os.pwrite(client.result, bytes(RESULT_BYTES), 0)
        reply = client.convert(buffer_request(1, 2, 32, 24))
        self.assertEqual(reply.report.bytes_copied, 0)
        got = read_memfd(client.result, RESULT_BYTES)
        self.assertGreater(max(got), 0)

    def assert_nothing_left(self) -> None:
        def returned() -> bool:
            now = self.daemon.usage()
            return (
                now.fds <= self.baseline.fds
                and now.threads <= self.baseline.threads + GRPC_THREADS
            )

        self.daemon.wait_until(
            returned,
            SETTLE_BOUND_S,
            f"at most {self.baseline}, now {self.daemon.usage()}",
        )
        if not SANITIZED:
            grown = (
                self.daemon.usage().resident_bytes
                - self.baseline.resident_bytes
            )
            self.assertLess(grown, RESIDENT_MARGIN_BYTES)

    def assert_refused(self, code: str, reason: str, call, *arguments):
        with self.assertRaises(RequestError) as caught:
            call(*arguments)
        error = caught.exception
        self.assertEqual((error.code, error.reason), (code, reason), error)
        return error

    def assert_convert_refused(self, code, reason, request):
        """The same refusal from the direct transport and, where the request
        names no buffer, from gRPC."""
        error = self.assert_refused(code, reason, self.client.convert, request)
        if request.source.HasField("inline_bytes"):
            with GrpcClient(self.daemon.grpc_address) as client:
                other = self.assert_refused(
                    code, reason, client.convert, request
                )
            self.assertEqual(other.detail, error.detail)
            self.assertEqual(other.message, error.message)
        if error.field:
            self.assertTrue(error.message.startswith(error.field), error)
        return error
