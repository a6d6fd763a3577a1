"""After warm-up, thousands of converts leave the daemon as it was: memory,
descriptors, threads; and no byte is copied for sealed memory in and out."""

import os
import time
import unittest

from daemon_fixture import GRPC_THREADS, SANITIZED, DaemonTest, Usage
from direct_client import ALL_SEALS, READ, DirectClient, GrpcClient
from direct_client import make_empty_memfd, make_memfd
from pictures import buffer_request, encode, inline_request, layout
from pictures import make_picture
from preproc.v1 import direct_pb2, image_pb2

CONVERTS = 1_000 if SANITIZED else 10_000
WARM_UP = 500
GRPC_CALLS = 500
SESSIONS = 200
# Sent before the oldest answer is awaited.
IN_FLIGHT = 8
# A machine that cannot do this many in the time still proves what it did.
BOUND_S = 60.0
LEAST_CONVERTS = CONVERTS // 10
# Nothing per request may stay: 10,000 x 400 bytes would be noticed.
RESIDENT_MARGIN_BYTES = 4 << 20
WIDTH, HEIGHT = 160, 120
SIDE = 96


class SteadyStateTest(DaemonTest):
    def assert_steady(self, before: Usage, margin: int) -> None:
        def returned() -> bool:
            now = self.daemon.usage()
            return (
                now.fds == before.fds
                and now.threads <= before.threads + GRPC_THREADS
            )

        self.daemon.wait_until(
            returned, 30.0, f"{before} again, not {self.daemon.usage()}"
        )
        after = self.daemon.usage()
        if not SANITIZED:
            self.assertLess(
                after.resident_bytes - before.resident_bytes, margin
            )

    def pump(self, client: DirectClient, requests: list, count: int) -> int:
        """Keeps IN_FLIGHT requests open; how many were answered."""
        frames = []
        for request in requests:
            frame = direct_pb2.ClientFrame()
            frame.convert.CopyFrom(request)
            frames.append(frame)
        end = time.monotonic() + BOUND_S
        open_ids: set[int] = set()
        sent = answered = 0
        while answered < count:
            while (
                len(open_ids) < IN_FLIGHT
                and sent < count
                and time.monotonic() < end
            ):
                frame = frames[sent % len(frames)]
                frame.request_id = client.new_id()
                open_ids.add(frame.request_id)
                client.send_raw(frame.SerializeToString())
                sent += 1
            if not open_ids:
                break
            reply, fds = client.receive()
            open_ids.remove(reply.request_id)
            self.assertEqual(fds, [])
            self.assertTrue(reply.HasField("convert"), reply)
            report = reply.convert.report
            self.assertEqual(report.bytes_copied, 0)
            self.assertEqual(list(report.warnings), [])
            answered += 1
        return answered

    def test_direct_converts(self) -> None:
        picture = make_picture(WIDTH, HEIGHT)
        with DirectClient(self.daemon.direct_path) as client:
            jpeg = client.keep(make_memfd(encode(picture, "JPEG"), ALL_SEALS))
            client.register(1, jpeg, READ)
            raw = client.keep(make_memfd(picture.tobytes()))
            client.register(2, raw, READ, layout=layout(WIDTH, HEIGHT))
            requests = []
            # One destination each: jobs in flight must not share one.
            for i in range(IN_FLIGHT):
                fd = client.keep(make_empty_memfd(SIDE * SIDE * 3))
                client.register(10 + i, fd)
                requests.append(
                    buffer_request(
                        1 + i % 2,
                        10 + i,
                        SIDE,
                        SIDE,
                        fit=image_pb2.FIT_LETTERBOX,
                    )
                )
            self.assertEqual(self.pump(client, requests, WARM_UP), WARM_UP)
            before = self.daemon.usage()
            begin = time.monotonic()
            done = self.pump(client, requests, CONVERTS)
            taken = time.monotonic() - begin
            self.assert_steady(before, RESIDENT_MARGIN_BYTES)
        print(
            f"{done} converts in {taken:.1f} s, "
            f"{1e6 * taken / done:.0f} us each; {before}"
        )
        self.assertGreaterEqual(done, LEAST_CONVERTS)

    def test_grpc_converts(self) -> None:
        request = inline_request(
            encode(make_picture(WIDTH, HEIGHT), "JPEG"), SIDE, SIDE
        )
        with GrpcClient(self.daemon.grpc_address) as client:
            for _ in range(100):
                client.convert(request)
            before = self.daemon.usage()
            for _ in range(GRPC_CALLS):
                client.convert(request)
            self.assert_steady(before, RESIDENT_MARGIN_BYTES)

    def test_sessions_that_come_and_go(self) -> None:
        content = encode(make_picture(WIDTH, HEIGHT), "JPEG")

        def visit() -> None:
            with DirectClient(self.daemon.direct_path) as client:
                source = client.keep(make_memfd(content, ALL_SEALS))
                client.register(1, source, READ)
                result = client.keep(make_empty_memfd(SIDE * SIDE * 3))
                client.register(2, result)
                client.convert(buffer_request(1, 2, SIDE, SIDE))

        for _ in range(50):
            visit()
        self.await_no_memory()
        before = self.daemon.usage()
        for _ in range(SESSIONS):
            visit()
        self.await_no_memory()
        self.assert_steady(before, RESIDENT_MARGIN_BYTES)

    def await_no_memory(self) -> None:
        """Until the last session's memory is closed."""

        def none_open() -> bool:
            folder = f"/proc/{self.daemon.pid}/fd"
            for name in os.listdir(folder):
                try:
                    target = os.readlink(f"{folder}/{name}")
                except FileNotFoundError:
                    continue
                if target.startswith("/memfd:t "):
                    return False
            return True

        self.daemon.wait_until(none_open, 30.0, "no memory of a session")


if __name__ == "__main__":
    unittest.main()
