"""Bad input over the real sockets: the documented code and reason, a session
that goes on, and nothing left behind."""

import array
import os
import random
import socket
import struct
import subprocess
import sys
import unittest
import zlib

import grpc
from daemon_fixture import GRPC_THREADS, SANITIZED, SETTLE_BOUND_S
from daemon_fixture import DaemonTest, DescriptorLimit
from direct_client import ALL_SEALS, READ, WRITE, DirectClient
from direct_client import GrpcClient, RequestError, SessionEnded
from direct_client import make_empty_memfd, make_memfd, read_memfd
from google.protobuf.message import DecodeError
from pictures import buffer_request, encode, inline_request, layout
from pictures import make_picture
from preproc.v1 import admin_pb2, buffers_pb2, direct_pb2, image_pb2

WIDTH, HEIGHT = 97, 61
RESULT_BYTES = 32 * 24 * 3
# What a malloc arena and thread stacks may keep after the worst case here.
RESIDENT_MARGIN_BYTES = 96 << 20
INT_MAX = 2**31 - 1
UINT64_MAX = 2**64 - 1


class HostileInputTest(DaemonTest):
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

    # Image bytes.

    def test_truncated_files(self) -> None:
        for name, content in (("jpeg", self.jpeg), ("png", self.png)):
            for size in (len(content) // 2, len(content) - 200, 40):
                with self.subTest(file=name, size=size):
                    self.assert_convert_refused(
                        "INVALID_ARGUMENT",
                        "IMAGE_TRUNCATED",
                        inline_request(content[:size], 32, 24),
                    )

    def test_truncated_file_in_a_buffer(self) -> None:
        fd = self.client.keep(make_memfd(self.jpeg[:-500], ALL_SEALS))
        self.client.register(3, fd, READ)
        self.assert_convert_refused(
            "INVALID_ARGUMENT",
            "IMAGE_TRUNCATED",
            buffer_request(3, 2, 32, 24),
        )

    def test_lenient_decode_of_a_truncated_file_warns(self) -> None:
        request = inline_request(self.jpeg[: len(self.jpeg) * 3 // 4], 32, 24)
        request.lenient = True
        reply = self.client.convert(request)
        self.assertEqual(len(reply.inline_bytes), RESULT_BYTES)
        self.assertTrue(reply.report.warnings)

    def test_damaged_file(self) -> None:
        damaged = bytearray(self.png)
        damaged[len(damaged) // 2] ^= 0xFF
        self.assert_convert_refused(
            "INVALID_ARGUMENT",
            "IMAGE_CORRUPT",
            inline_request(bytes(damaged), 32, 24),
        )

    def test_empty_and_foreign_bytes(self) -> None:
        for content in (b"", b"\0", b"GIF89a" + bytes(64), os.urandom(4096)):
            with self.subTest(size=len(content)):
                self.assert_convert_refused(
                    "INVALID_ARGUMENT",
                    "IMAGE_FORMAT",
                    inline_request(content, 32, 24),
                )

    def test_picture_that_claims_a_huge_size(self) -> None:
        size = struct.pack(">II", 60000, 60000)
        content = self.png[:16] + size + self.png[24:]
        error = self.assert_refused(
            "INVALID_ARGUMENT",
            "TOO_LARGE",
            self.client.convert,
            inline_request(fix_png_crc(content), 32, 24),
        )
        self.assertTrue(error.detail.limit)

    # Memory.

    def test_unsealed_memory_works_by_copy_with_a_warning(self) -> None:
        source = self.client.keep(make_memfd(self.jpeg, 0, "unsealed-in"))
        result = self.client.keep(
            make_empty_memfd(RESULT_BYTES, 0, "unsealed-out")
        )
        for buffer_id, fd in ((3, source), (4, result)):
            reply = self.client.register(buffer_id, fd)
            self.assertEqual(
                list(reply.kinds), [buffers_pb2.BUFFER_KIND_MEMFD_COPY]
            )
            self.assertTrue(reply.warnings)
        reply = self.client.convert(buffer_request(3, 4, 32, 24))
        self.assertGreaterEqual(
            reply.report.bytes_copied, len(self.jpeg) + RESULT_BYTES
        )
        self.assertTrue(reply.report.warnings)
        self.client.convert(buffer_request(1, 2, 32, 24))
        self.assertEqual(
            os.pread(result, RESULT_BYTES, 0),
            read_memfd(self.client.result, RESULT_BYTES),
        )
        with open(f"/proc/{self.daemon.pid}/maps", encoding="utf-8") as file:
            self.assertNotIn("unsealed-", file.read())

    def test_unsealed_memory_that_shrinks_after_registration(self) -> None:
        source = self.client.keep(make_memfd(self.jpeg, 0))
        result = self.client.keep(make_empty_memfd(RESULT_BYTES, 0))
        self.client.register(3, source, READ)
        self.client.register(4, result)
        os.ftruncate(source, 100)
        self.assert_convert_refused(
            "INVALID_ARGUMENT",
            "BUFFER_TOO_SMALL",
            buffer_request(3, 2, 32, 24),
        )
        os.ftruncate(result, 0)
        self.assert_convert_refused(
            "INVALID_ARGUMENT",
            "BUFFER_TOO_SMALL",
            buffer_request(1, 4, 32, 24),
        )

    def test_memory_shorter_than_the_layout(self) -> None:
        fd = self.client.keep(make_empty_memfd(64 * 48 * 3 - 1))
        self.assert_refused(
            "INVALID_ARGUMENT",
            "BUFFER_TOO_SMALL",
            lambda: self.client.register(3, fd, layout=layout(64, 48)),
        )
        self.client.register(3, fd)
        request = buffer_request(3, 2, 32, 24)
        request.source.layout.CopyFrom(layout(64, 48))
        self.assert_convert_refused(
            "INVALID_ARGUMENT", "BUFFER_TOO_SMALL", request
        )
        self.assert_convert_refused(
            "INVALID_ARGUMENT",
            "BUFFER_TOO_SMALL",
            buffer_request(1, 3, 64, 48),
        )

    def test_strides_and_offsets_that_overflow(self) -> None:
        fd = self.client.keep(make_empty_memfd(1 << 16))
        self.client.register(3, fd)
        tight = 64 * 3
        for offset, stride in (
            (0, 2**63),
            (0, UINT64_MAX),
            (0, UINT64_MAX // 47 + 1),
            (UINT64_MAX, tight),
            (UINT64_MAX - tight * 48 + 1, tight),
            ((1 << 16) - 1, tight),
            (1 << 16, tight),
            (0, 1 << 16),
        ):
            planes = layout(64, 48, planes=[(offset, stride)])
            with self.subTest(offset=offset, stride=stride):
                self.assert_refused(
                    "INVALID_ARGUMENT",
                    "BUFFER_TOO_SMALL",
                    lambda: self.client.register(4, fd, layout=planes),
                )
                request = buffer_request(3, 2, 32, 24)
                request.source.layout.CopyFrom(planes)
                self.assert_convert_refused(
                    "INVALID_ARGUMENT", "BUFFER_TOO_SMALL", request
                )
                request = buffer_request(1, 3, 64, 48)
                request.destination.layout.CopyFrom(planes)
                self.assert_convert_refused(
                    "INVALID_ARGUMENT", "BUFFER_TOO_SMALL", request
                )

    def test_stride_below_a_row(self) -> None:
        fd = self.client.keep(make_empty_memfd(1 << 16))
        self.assert_refused(
            "INVALID_ARGUMENT",
            "FIELD_INVALID",
            lambda: self.client.register(
                3, fd, layout=layout(64, 48, planes=[(0, 64 * 3 - 1)])
            ),
        )

    def test_plane_in_a_descriptor_that_is_not_there(self) -> None:
        fd = self.client.keep(make_empty_memfd(1 << 16))
        planes = layout(64, 48, planes=[(0, 192)])
        planes.planes[0].fd_index = 3
        self.assert_refused(
            "INVALID_ARGUMENT",
            "FIELD_INVALID",
            lambda: self.client.register(3, fd, layout=planes),
        )

    def test_descriptors_that_are_no_memory(self) -> None:
        reader, writer = os.pipe()
        left, right = socket.socketpair()
        with open(__file__, "rb") as regular, left, right:
            for fd in (reader, left.fileno(), regular.fileno()):
                self.assert_refused(
                    "INVALID_ARGUMENT",
                    "BUFFER_KIND",
                    self.client.register,
                    3,
                    fd,
                    READ,
                )
        os.close(reader)
        os.close(writer)

    def test_empty_oversized_and_write_sealed_memory(self) -> None:
        empty = self.client.keep(make_empty_memfd(0))
        self.assert_refused(
            "INVALID_ARGUMENT", "BUFFER_TOO_SMALL", self.client.register, 3, empty
        )
        # Sparse: costs nothing here, and 8 TiB once it is read.
        sparse = self.client.keep(make_empty_memfd(8 << 40))
        self.assert_refused(
            "INVALID_ARGUMENT", "TOO_LARGE", self.client.register, 3, sparse
        )
        sealed = self.client.keep(make_memfd(bytes(4096), ALL_SEALS))
        self.assert_refused(
            "FAILED_PRECONDITION",
            "BUFFER_SEALED",
            self.client.register,
            3,
            sealed,
            WRITE,
        )
        self.client.register(3, sealed, READ)
        self.assert_convert_refused(
            "FAILED_PRECONDITION",
            "BUFFER_READ_ONLY",
            buffer_request(1, 3, 32, 24),
        )

    def test_more_memory_than_the_session_may_have(self) -> None:
        for buffer_id in (3, 4):
            fd = self.client.keep(make_empty_memfd(500 << 20))
            self.client.register(buffer_id, fd)
        fd = self.client.keep(make_empty_memfd(500 << 20))
        self.assert_refused(
            "RESOURCE_EXHAUSTED", "QUOTA", self.client.register, 5, fd
        )

    # Geometry.

    def test_rectangles_outside_the_picture(self) -> None:
        for x, y, width, height in (
            (0, 0, WIDTH + 1, HEIGHT),
            (0, 0, WIDTH, HEIGHT + 1),
            (WIDTH, 0, 1, 1),
            (-1, 0, 4, 4),
            (0, -(2**31), 4, 4),
            (1, 1, INT_MAX, INT_MAX),
            (INT_MAX, INT_MAX, INT_MAX, INT_MAX),
            (0, 0, 0, 4),
            (4, 4, -2, -2),
        ):
            rect = image_pb2.Rect(x=x, y=y, width=width, height=height)
            with self.subTest(rect=(x, y, width, height)):
                error = self.assert_convert_refused(
                    "INVALID_ARGUMENT",
                    "GEOMETRY_INVALID",
                    inline_request(self.jpeg, 32, 24, source_rect=rect),
                )
                self.assertIn("source_rect", error.field)

    def test_place_outside_the_destination(self) -> None:
        for rect in (
            None,
            image_pb2.Rect(x=1, y=0, width=32, height=24),
            image_pb2.Rect(x=0, y=0, width=INT_MAX, height=1),
            image_pb2.Rect(x=-1, y=-1, width=2, height=2),
            image_pb2.Rect(x=0, y=0, width=0, height=0),
        ):
            with self.subTest(rect=rect):
                self.assert_convert_refused(
                    "INVALID_ARGUMENT",
                    "GEOMETRY_INVALID",
                    inline_request(
                        self.jpeg,
                        32,
                        24,
                        fit=image_pb2.FIT_PLACE,
                        place=rect,
                    ),
                )

    def test_zero_and_huge_sizes(self) -> None:
        for width, height, reason in (
            (-1, 24, "GEOMETRY_INVALID"),
            (32, -(2**31), "GEOMETRY_INVALID"),
            (16385, 24, "TOO_LARGE"),
            (32, INT_MAX, "TOO_LARGE"),
            (INT_MAX, INT_MAX, "TOO_LARGE"),
        ):
            with self.subTest(width=width, height=height):
                self.assert_convert_refused(
                    "INVALID_ARGUMENT",
                    reason,
                    inline_request(self.jpeg, width, height),
                )
        for width, height, reason in (
            (0, 0, "GEOMETRY_INVALID"),
            (4, 0, "GEOMETRY_INVALID"),
            (-4, 4, "GEOMETRY_INVALID"),
            (16385, 1, "TOO_LARGE"),
            (INT_MAX, INT_MAX, "TOO_LARGE"),
        ):
            with self.subTest(raw_width=width, raw_height=height):
                request = inline_request(bytes(48), 32, 24)
                request.source.layout.CopyFrom(layout(width, height))
                self.assert_convert_refused(
                    "INVALID_ARGUMENT", reason, request
                )

    def test_inline_result_above_its_limit(self) -> None:
        self.assert_convert_refused(
            "INVALID_ARGUMENT",
            "TOO_LARGE",
            inline_request(self.jpeg, 4096, 4096),
        )

    # Ids and tokens.

    def test_unknown_buffer_and_generation(self) -> None:
        for source, destination in ((77, 2), (1, 77), (UINT64_MAX, 2), (0, 2)):
            with self.subTest(source=source, destination=destination):
                self.assert_convert_refused(
                    "NOT_FOUND",
                    "BUFFER_UNKNOWN",
                    buffer_request(source, destination, 32, 24),
                )
        request = buffer_request(1, 2, 32, 24)
        request.source.buffer.generation = 2
        self.assert_convert_refused(
            "FAILED_PRECONDITION", "BUFFER_GENERATION", request
        )

    def test_buffer_of_another_session(self) -> None:
        with DirectClient(self.daemon.direct_path) as other:
            fd = other.keep(make_memfd(self.jpeg, ALL_SEALS))
            other.register(9, fd, READ)
            self.assert_convert_refused(
                "NOT_FOUND", "BUFFER_UNKNOWN", buffer_request(9, 2, 32, 24)
            )
            with GrpcClient(
                self.daemon.grpc_address, self.client.welcome.token
            ) as client:
                self.assert_refused(
                    "NOT_FOUND",
                    "BUFFER_UNKNOWN",
                    client.convert,
                    buffer_request(9, 2, 32, 24),
                )

    def test_wrong_tokens(self) -> None:
        token = self.client.welcome.token
        self.assertEqual(len(token), 16)
        flipped = bytes([token[0] ^ 1]) + token[1:]
        for wrong in (flipped, bytes(16), token[:-1], token + b"\0", b""):
            with GrpcClient(self.daemon.grpc_address, wrong) as client:
                self.assert_refused(
                    "NOT_FOUND",
                    "SESSION_UNKNOWN",
                    client.convert,
                    buffer_request(1, 2, 32, 24),
                )
        with GrpcClient(self.daemon.grpc_address) as client:
            self.assert_refused(
                "UNAUTHENTICATED",
                "SESSION_UNKNOWN",
                client.convert,
                buffer_request(1, 2, 32, 24),
            )

    def test_token_of_an_ended_session(self) -> None:
        with DirectClient(self.daemon.direct_path) as other:
            token = other.welcome.token
        self.await_sessions(1)
        with GrpcClient(self.daemon.grpc_address, token) as client:
            self.assert_refused(
                "NOT_FOUND",
                "SESSION_UNKNOWN",
                client.convert,
                buffer_request(1, 2, 32, 24),
            )

    def test_wrong_share_token(self) -> None:
        for token in (b"", bytes(16), os.urandom(16), bytes(64)):
            request = buffers_pb2.AcceptShareRequest(
                share_token=token, buffer_id=5, generation=1
            )
            with self.assertRaises(RequestError) as caught:
                self.client.call("accept_share", request)
            self.assertEqual(caught.exception.code, "NOT_FOUND")

    def test_admin_calls_on_the_tenant_socket(self) -> None:
        with GrpcClient(self.daemon.grpc_address) as client:
            with self.assertRaises(RequestError) as caught:
                client.call(
                    "preproc.v1.Admin/Drain",
                    admin_pb2.DrainRequest(),
                    admin_pb2.DrainReply,
                )
        self.assertEqual(caught.exception.code, "UNIMPLEMENTED")

    # Frames.

    def next_error(self, client: DirectClient | None = None) -> RequestError:
        frame, fds = (client or self.client).receive()
        self.assertEqual(fds, [])
        self.assertTrue(frame.HasField("error"), frame)
        error = frame.error
        result = RequestError(error.code, error.message, error.detail)
        result.request_id = frame.request_id
        return result

    def assert_next_error(self, code: str, reason: str) -> None:
        error = self.next_error()
        self.assertEqual((error.code, error.reason), (code, reason), error)

    def test_message_over_64_kib(self) -> None:
        for size in (64 * 1024 + 1, 100_000, 180_000):
            frame = direct_pb2.ClientFrame(request_id=self.client.new_id())
            frame.echo.payload = bytes(size)
            self.client.send_raw(frame.SerializeToString())
            self.assert_next_error("INVALID_ARGUMENT", "FRAME_INVALID")
        # With descriptors, which must be closed.
        fds = [self.client.keep(make_empty_memfd(4096)) for _ in range(8)]
        self.client.send_raw(bytes(70_000), fds)
        self.assert_next_error("INVALID_ARGUMENT", "FRAME_INVALID")

    def test_largest_message_is_read(self) -> None:
        content = self.jpeg + bytes(64 * 1024 - len(self.jpeg) - 200)
        request = inline_request(content, 32, 24)
        reply = self.client.convert(request)
        self.assertEqual(len(reply.inline_bytes), RESULT_BYTES)

    def register_frame(self, fd_count: int) -> bytes:
        frame = direct_pb2.ClientFrame(request_id=self.client.new_id())
        frame.register_buffer.buffer_id = 3
        frame.register_buffer.generation = 1
        frame.register_buffer.fd_count = fd_count
        return frame.SerializeToString()

    def test_nine_descriptors(self) -> None:
        fds = [self.client.keep(make_empty_memfd(4096)) for _ in range(9)]
        self.client.send_raw(self.register_frame(9), fds)
        self.assert_next_error("INVALID_ARGUMENT", "FD_COUNT")
        # As many as the kernel lets through.
        self.client.send_raw(self.register_frame(1), fds[:1] * 253)
        self.assert_next_error("INVALID_ARGUMENT", "FD_COUNT")

    def test_descriptors_in_two_control_messages(self) -> None:
        fds = [self.client.keep(make_empty_memfd(4096)) for _ in range(5)]
        rights = array.array("i", fds).tobytes()
        part = (socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)
        self.client.socket.sendmsg([self.register_frame(5)], [part, part])
        self.assert_next_error("INVALID_ARGUMENT", "FD_COUNT")

    def test_other_descriptors_than_declared(self) -> None:
        fd = self.client.keep(make_empty_memfd(4096))
        for declared, fds in ((2, [fd]), (1, []), (1, [fd, fd]), (0, [fd])):
            self.client.send_raw(self.register_frame(declared), fds)
            self.assert_next_error("INVALID_ARGUMENT", "FD_COUNT")
        with self.assertRaises(RequestError) as caught:
            self.client.call("echo", direct_pb2.EchoRequest(), [fd])
        self.assertEqual(caught.exception.reason, "FD_COUNT")

    def test_control_data_truncated_by_the_descriptor_limit(self) -> None:
        fds = [self.client.keep(make_empty_memfd(4096)) for _ in range(4)]
        with DescriptorLimit(self.daemon):
            self.client.send_raw(self.register_frame(4), fds)
            self.assert_next_error("RESOURCE_EXHAUSTED", "FDS_LOST")
            # The session goes on while the daemon has no descriptor left.
            self.assert_usable()
            self.assertEqual(self.client.echo(b"x"), b"x")
        self.client.register(3, fds[0])

    def test_new_connections_wait_while_descriptors_are_out(self) -> None:
        with DescriptorLimit(self.daemon):
            waiting = DirectClient(self.daemon.direct_path, hello=False)
            waiting.send(
                "hello", direct_pb2.Hello(min_version=1, max_version=1)
            )
            self.assertEqual(self.client.echo(b"x"), b"x")
        with waiting:
            frame, _ = waiting.receive()
            self.assertTrue(frame.HasField("welcome"), frame)

    def test_garbage_frames(self) -> None:
        noise = random.Random(5)
        for size in (1, 2, 3, 17, 100, 4096, 65536):
            # 0x07 is no wire type: never a valid message.
            self.client.send_raw(b"\x07" + noise.randbytes(size - 1))
            error = self.next_error()
            self.assertEqual(error.code, "INVALID_ARGUMENT", error)
            self.assertEqual(error.reason, "FRAME_INVALID", error)

    def test_random_frames_never_end_the_session(self) -> None:
        noise = random.Random(6)
        good = direct_pb2.ClientFrame(request_id=1)
        good.convert.CopyFrom(buffer_request(1, 2, 32, 24))
        good_bytes = good.SerializeToString()
        sent = 0
        for _ in range(300):
            data = bytearray(good_bytes)
            for _ in range(noise.randint(1, 4)):
                data[noise.randrange(len(data))] = noise.randrange(256)
            frame = direct_pb2.ClientFrame()
            try:
                frame.ParseFromString(bytes(data))
            except DecodeError:
                pass
            if frame.HasField("cancel"):
                continue  # has no answer of its own
            self.client.send_raw(bytes(data))
            self.client.receive()
            sent += 1
        self.assertGreater(sent, 200)
        self.client._next_id = 1000  # past the ids that were sent

    def test_unknown_body_and_ids(self) -> None:
        # Field 500, a message newer than this daemon.
        frame = direct_pb2.ClientFrame(request_id=self.client.new_id())
        newer = frame.SerializeToString() + b"\xa2\x1f\x02\x08\x01"
        for data in (newer, frame.SerializeToString()):
            self.client.send_raw(data)
            self.assert_next_error("UNIMPLEMENTED", "FRAME_INVALID")
        zero = direct_pb2.ClientFrame(echo=direct_pb2.EchoRequest())
        self.client.send_raw(zero.SerializeToString())
        self.assert_next_error("INVALID_ARGUMENT", "FIELD_INVALID")

    def test_second_hello(self) -> None:
        self.assert_refused(
            "FAILED_PRECONDITION", "FRAME_INVALID", self.client.hello
        )

    def test_first_frame_that_is_no_hello(self) -> None:
        frames = [
            direct_pb2.ClientFrame(
                request_id=1, echo=direct_pb2.EchoRequest()
            ).SerializeToString(),
            b"\x07garbage",
            bytes(70_000),
        ]
        for data in frames:
            with DirectClient(self.daemon.direct_path, hello=False) as other:
                other.send_raw(data)
                self.next_error(other)
                with self.assertRaises(SessionEnded):
                    other.receive()

    def test_hello_with_another_version_or_a_bad_name(self) -> None:
        for hello, code in (
            (direct_pb2.Hello(min_version=2, max_version=9), "VERSION_MISMATCH"),
            (direct_pb2.Hello(), "VERSION_MISMATCH"),
            (
                direct_pb2.Hello(
                    min_version=1, max_version=1, client_name="x" * 65
                ),
                None,
            ),
        ):
            with DirectClient(self.daemon.direct_path, hello=False) as other:
                with self.assertRaises(RequestError) as caught:
                    other.call("hello", hello)
                if code:
                    self.assertEqual(caught.exception.reason, code)

    def test_client_that_never_reads(self) -> None:
        with DirectClient(self.daemon.direct_path) as other:
            other.socket.setblocking(False)
            request = direct_pb2.EchoRequest(payload=bytes(1024))
            try:
                for _ in range(20_000):
                    other.send("echo", request)
            except OSError:
                pass  # disconnected, or the socket's buffer is full
            self.assert_usable()

    # Death.

    def run_hostile(self, role: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [
                sys.executable,
                "-B",
                os.path.join(os.path.dirname(__file__), "hostile_client.py"),
                self.daemon.direct_path,
                role,
            ],
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_client_killed_between_descriptors_and_request(self) -> None:
        for role in ("unread", "idle"):
            with self.subTest(role=role):
                process = self.run_hostile(role)
                self.await_sessions(2)
                process.kill()
                process.wait()
                self.await_sessions(1)
                self.assert_usable()

    def test_client_killed_during_the_work(self) -> None:
        process = self.run_hostile("busy")
        self.daemon.wait_until(
            lambda: self.status().running > 0, SETTLE_BOUND_S, "running work"
        )
        process.kill()
        process.wait()
        self.await_sessions(1)
        self.assert_usable()

    def test_connection_closed_with_work_in_flight(self) -> None:
        for _ in range(20):
            with DirectClient(self.daemon.direct_path) as other:
                self.register_good(other)
                for _ in range(4):
                    other.send("convert", buffer_request(1, 2, 32, 24))
        self.await_sessions(1)

    def test_connections_without_a_word(self) -> None:
        silent = [
            DirectClient(self.daemon.direct_path, hello=False)
            for _ in range(32)
        ]
        self.assert_usable()
        for client in silent:
            client.close()

    def test_grpc_garbage(self) -> None:
        path = self.daemon.grpc_address.removeprefix("unix:")
        for data in (b"\0" * 64, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(path)
                raw.sendall(data)
        with GrpcClient(self.daemon.grpc_address) as client:
            invoke = client.channel.unary_unary("/preproc.v1.Preproc/Convert")
            with self.assertRaises(grpc.RpcError):
                invoke(b"\x07\x07\x07", timeout=30)


def fix_png_crc(content: bytes) -> bytes:
    """Makes IHDR's checksum right again (bytes 12..29 of a PNG)."""
    checksum = struct.pack(">I", zlib.crc32(content[12:29]))
    return content[:29] + checksum + content[33:]


if __name__ == "__main__":
    unittest.main()
