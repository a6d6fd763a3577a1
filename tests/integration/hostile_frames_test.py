"""Bad frames, descriptors that get lost, and clients that die, over the real
sockets: the documented answer, a session that goes on, nothing left behind."""

import array
import os
import random
import socket
import subprocess
import sys
import unittest

import grpc
from daemon_fixture import SETTLE_BOUND_S, DescriptorLimit
from direct_client import DirectClient, GrpcClient, RequestError
from direct_client import SessionEnded, make_empty_memfd
from google.protobuf.message import DecodeError
from hostile_fixture import RESULT_BYTES, HostileTest
from pictures import buffer_request, inline_request
from preproc.v1 import direct_pb2


class HostileFramesTest(HostileTest):
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


if __name__ == "__main__":
    unittest.main()
