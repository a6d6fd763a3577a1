"""Bad image bytes, memory, geometry and ids over the real sockets: the
documented code and reason, a session that goes on, nothing left behind."""

import os
import socket
import struct
import unittest
import zlib

from direct_client import ALL_SEALS, READ, WRITE, DirectClient, GrpcClient
from direct_client import RequestError, make_empty_memfd, make_memfd
from direct_client import read_memfd
from hostile_fixture import HEIGHT, RESULT_BYTES, WIDTH, HostileTest
from pictures import buffer_request, inline_request, layout
from preproc.v1 import admin_pb2, buffers_pb2, image_pb2

INT_MAX = 2**31 - 1
UINT64_MAX = 2**64 - 1


class HostileInputTest(HostileTest):
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


def fix_png_crc(content: bytes) -> bytes:
    """Makes IHDR's checksum right again (bytes 12..29 of a PNG)."""
    checksum = struct.pack(">I", zlib.crc32(content[12:29]))
    return content[:29] + checksum + content[33:]


if __name__ == "__main__":
    unittest.main()
