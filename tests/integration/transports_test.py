"""The direct transport and gRPC give the same bytes, layouts and errors; a
session's token works for its own process only."""

import os
import subprocess
import sys
import unittest

from daemon_fixture import DaemonTest
from direct_client import ALL_SEALS, READ, DirectClient, GrpcClient
from direct_client import RequestError, make_empty_memfd, make_memfd
from direct_client import read_memfd
from pictures import encode, layout, make_picture
from preproc.v1 import admin_pb2, buffers_pb2, image_pb2, preproc_pb2

SIZES = ((97, 61), (64, 64), (33, 130))
ELEMENT_BYTES = {
    image_pb2.DATA_TYPE_U8: 1,
    image_pb2.DATA_TYPE_I8: 1,
    image_pb2.DATA_TYPE_F32: 4,
}
FORMATS = {
    image_pb2.PIXEL_FORMAT_RGB: 3,
    image_pb2.PIXEL_FORMAT_BGRA: 4,
    image_pb2.PIXEL_FORMAT_GREY: 1,
    image_pb2.PIXEL_FORMAT_PLANAR_RGB: 3,
}


def specs() -> list[dict]:
    rect = image_pb2.Rect(x=3, y=5, width=27, height=40)
    place = image_pb2.Rect(x=2, y=4, width=20, height=10)
    return [
        {},
        {"fit": image_pb2.FIT_LETTERBOX},
        {
            "fit": image_pb2.FIT_LETTERBOX,
            "letterbox_rule": image_pb2.LETTERBOX_RULE_ULTRALYTICS,
            "pad": image_pb2.Color(r=1, g=2, b=3, a=4),
        },
        {"fit": image_pb2.FIT_PLACE, "place": place},
        {"source_rect": rect, "orientation": 6},
        {"filter": image_pb2.FILTER_NEAREST, "orientation": 2},
    ]


class TransportsTest(DaemonTest):
    def setUp(self) -> None:
        self.client = DirectClient(self.daemon.direct_path)
        self.addCleanup(self.client.close)
        self.grpc = GrpcClient(
            self.daemon.grpc_address, self.client.welcome.token
        )
        self.addCleanup(self.grpc.channel.close)
        self.result_bytes = 48 * 40 * 4 * 4
        for buffer_id in (10, 11):
            fd = self.client.keep(make_empty_memfd(self.result_bytes))
            self.client.register(buffer_id, fd)
            setattr(self, f"result{buffer_id}", fd)

    def request(self, source, spec, pixel_format, dtype, destination_id):
        request = preproc_pb2.ConvertRequest(
            source=source, spec=preproc_pb2.ConvertSpec(**spec)
        )
        request.destination.layout.CopyFrom(
            layout(48, 40, pixel_format, dtype)
        )
        if destination_id == 0:
            request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
        else:
            request.destination.buffer.buffer_id = destination_id
            request.destination.buffer.generation = 1
        return request

    def assert_same(self, source, spec, pixel_format, dtype) -> None:
        def ask(call, destination_id):
            return call(
                self.request(source, spec, pixel_format, dtype, destination_id)
            )

        direct = ask(self.client.convert, 10)
        unary = ask(self.grpc.convert, 11)
        inline = ask(self.grpc.convert, 0)
        size = 48 * 40 * FORMATS[pixel_format] * ELEMENT_BYTES[dtype]
        self.assertEqual(len(inline.inline_bytes), size)
        self.assertEqual(read_memfd(self.result10, size), inline.inline_bytes)
        self.assertEqual(read_memfd(self.result11, size), inline.inline_bytes)
        for other in (unary, inline):
            for field in ("layout", "placement", "info"):
                self.assertEqual(getattr(direct, field), getattr(other, field))
            self.assertEqual(
                direct.orientation_applied, other.orientation_applied
            )
            self.assertEqual(direct.report.backend, other.report.backend)
        # Not the same by being nothing at all.
        self.assertGreater(len(set(inline.inline_bytes)), 16)

    def test_files_give_identical_bytes(self) -> None:
        next_id = 100
        for width, height in SIZES:
            picture = make_picture(width, height, seed=width)
            for kind in ("JPEG", "PNG"):
                next_id += 1
                fd = self.client.keep(
                    make_memfd(encode(picture, kind), ALL_SEALS)
                )
                self.client.register(next_id, fd, READ)
                source = preproc_pb2.Source()
                source.buffer.buffer_id = next_id
                source.buffer.generation = 1
                for spec in specs():
                    if "source_rect" in spec and height < 45:
                        continue
                    if "source_rect" in spec and width < 30:
                        continue
                    with self.subTest(
                        file=kind, size=(width, height), spec=spec
                    ):
                        self.assert_same(
                            source,
                            spec,
                            image_pb2.PIXEL_FORMAT_RGB,
                            image_pb2.DATA_TYPE_U8,
                        )

    def test_formats_and_types_give_identical_bytes(self) -> None:
        picture = make_picture(90, 70, seed=3)
        fd = self.client.keep(make_memfd(picture.tobytes()))
        self.client.register(1, fd, READ, layout=layout(90, 70))
        source = preproc_pb2.Source()
        source.buffer.buffer_id = 1
        source.buffer.generation = 1
        for pixel_format in FORMATS:
            for dtype in ELEMENT_BYTES:
                with self.subTest(format=pixel_format, dtype=dtype):
                    self.assert_same(
                        source,
                        {"fit": image_pb2.FIT_LETTERBOX},
                        pixel_format,
                        dtype,
                    )

    def test_other_operations_answer_the_same(self) -> None:
        content = encode(make_picture(50, 30), "JPEG")
        peek = preproc_pb2.PeekRequest()
        peek.source.inline_bytes = content
        decode = preproc_pb2.DecodeRequest()
        decode.source.inline_bytes = content
        decode.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
        explain = preproc_pb2.ExplainRequest()
        explain.convert.source.inline_bytes = content
        explain.convert.destination.layout.CopyFrom(layout(64, 64))
        explain.convert.spec.fit = image_pb2.FIT_LETTERBOX
        for body, method, request, reply_type in (
            ("peek", "Peek", peek, preproc_pb2.PeekReply),
            ("decode", "Decode", decode, preproc_pb2.DecodeReply),
            ("explain", "Explain", explain, preproc_pb2.ExplainReply),
            (
                "capabilities",
                "Capabilities",
                preproc_pb2.CapabilitiesRequest(),
                preproc_pb2.CapabilitiesReply,
            ),
        ):
            with self.subTest(operation=body):
                direct = self.client.call(body, request)
                unary = self.grpc.call(
                    f"preproc.v1.Preproc/{method}", request, reply_type
                )
                for reply in (direct, unary):
                    if hasattr(reply, "report"):
                        reply.report.ClearField("times")
                self.assertEqual(direct, unary)
                self.assertGreater(direct.ByteSize(), 8)

    def test_operations_that_are_not_built_say_so(self) -> None:
        reply = self.client.call(
            "capabilities", preproc_pb2.CapabilitiesRequest()
        )
        built = {o.operation: o.available for o in reply.operations}
        self.assertTrue(built["convert"])
        for body, request in (
            ("materialize_masks", preproc_pb2.MaterializeMasksRequest()),
            ("draw_masks", preproc_pb2.DrawMasksRequest()),
            ("prepare", preproc_pb2.PrepareRequest()),
            ("run", preproc_pb2.RunRequest()),
        ):
            with self.subTest(operation=body):
                if built[body]:
                    continue
                with self.assertRaises(RequestError) as caught:
                    self.client.call(body, request)
                self.assertEqual(caught.exception.code, "UNIMPLEMENTED")
                self.assertEqual(caught.exception.reason, "NOT_BUILT")

    def test_buffers_of_the_session_are_listed_on_admin(self) -> None:
        with GrpcClient(self.daemon.admin_address) as admin:
            reply = admin.call(
                "preproc.v1.Admin/ListSessions",
                admin_pb2.ListSessionsRequest(),
                admin_pb2.ListSessionsReply,
            )
        mine = [
            s
            for s in reply.sessions
            if s.session_id == self.client.welcome.session_id
        ]
        self.assertEqual(len(mine), 1)
        self.assertEqual(mine[0].pid, os.getpid())
        self.assertEqual(mine[0].buffers, 2)
        self.assertEqual(mine[0].client_name, "test")

    def test_allocated_buffer_comes_back_and_is_written(self) -> None:
        request = buffers_pb2.AllocateBufferRequest(
            buffer_id=20, generation=1, layout=layout(48, 40)
        )
        reply, fds = self.client.answer(
            self.client.send("allocate_buffer", request)
        )
        self.assertEqual(len(fds), 1)
        fd = self.client.keep(fds[0])
        self.assertEqual(reply.size_bytes, os.fstat(fd).st_size)
        source = preproc_pb2.Source(
            inline_bytes=encode(make_picture(50, 30), "JPEG")
        )
        convert = self.request(
            source, {}, image_pb2.PIXEL_FORMAT_RGB, image_pb2.DATA_TYPE_U8, 20
        )
        self.client.convert(convert)
        size = 48 * 40 * 3
        got = read_memfd(fd, size)
        convert = self.request(
            source, {}, image_pb2.PIXEL_FORMAT_RGB, image_pb2.DATA_TYPE_U8, 0
        )
        self.assertEqual(self.client.convert(convert).inline_bytes, got)

    def test_shared_buffer_is_the_same_memory(self) -> None:
        picture = make_picture(48, 40, seed=9)
        fd = self.client.keep(make_memfd(picture.tobytes()))
        self.client.register(30, fd, READ, layout=layout(48, 40))
        token = self.client.call(
            "share_buffer",
            buffers_pb2.ShareBufferRequest(
                buffer_id=30, generation=1, access=READ
            ),
        ).share_token
        self.assertEqual(len(token), 16)
        with DirectClient(self.daemon.direct_path, name="taker") as taker:
            taker.call(
                "accept_share",
                buffers_pb2.AcceptShareRequest(
                    share_token=token, buffer_id=5, generation=3
                ),
            )
            request = preproc_pb2.ConvertRequest()
            request.source.buffer.buffer_id = 5
            request.source.buffer.generation = 3
            request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
            request.destination.layout.CopyFrom(layout(48, 40))
            self.assertEqual(
                taker.convert(request).inline_bytes, picture.tobytes()
            )
            self.client.call(
                "revoke_share",
                buffers_pb2.RevokeShareRequest(share_token=token),
            )
            with self.assertRaises(RequestError) as caught:
                taker.convert(request)
            self.assertEqual(caught.exception.reason, "BUFFER_UNKNOWN")

    def test_token_of_another_process_is_refused(self) -> None:
        done = subprocess.run(
            [
                sys.executable,
                "-B",
                os.path.abspath(__file__),
                "--list-buffers",
                self.daemon.grpc_address,
                self.client.welcome.token.hex(),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(
            done.stdout.split(), ["PERMISSION_DENIED", "SESSION_PEER"]
        )
        # The owner's own calls go on.
        list_own_buffers(self.grpc)


def list_own_buffers(client: GrpcClient) -> None:
    client.call(
        "preproc.v1.Buffers/List",
        buffers_pb2.ListBuffersRequest(),
        buffers_pb2.ListBuffersReply,
    )


def list_with_token(address: str, token: str) -> None:
    """What another process does with a token that it got hold of."""
    with GrpcClient(address, bytes.fromhex(token)) as client:
        try:
            list_own_buffers(client)
            print("OK")
        except RequestError as error:
            print(error.code, error.reason)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--list-buffers"]:
        list_with_token(*sys.argv[2:])
    else:
        unittest.main()
