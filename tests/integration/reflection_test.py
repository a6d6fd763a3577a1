"""What grpcurl does, with Debian's python3-grpcio: everything that is called
here is learnt from the daemon by reflection, no generated message is used."""

import unittest

import grpc
import reflection_pb2
from daemon_fixture import DaemonTest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pictures import encode, make_picture

REFLECTION = "grpc.reflection.v1alpha.ServerReflection"
TENANT_SERVICES = {
    "preproc.v1.Preproc",
    "preproc.v1.Buffers",
    "grpc.health.v1.Health",
    REFLECTION,
}


class Reflection:
    """A pool of descriptors that is filled by asking a server."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._pool = descriptor_pool.DescriptorPool()
        self._files: set[str] = set()

    def _ask(self, **question) -> reflection_pb2.ServerReflectionResponse:
        info = self._channel.stream_stream(
            f"/{REFLECTION}/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        request = reflection_pb2.ServerReflectionRequest(**question)
        (reply,) = list(info(iter([request]), timeout=30))
        return reply

    def services(self) -> set[str]:
        reply = self._ask(list_services="*")
        return {s.name for s in reply.list_services_response.service}

    def _add(self, reply: reflection_pb2.ServerReflectionResponse) -> None:
        files = {}
        for data in reply.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            files[file.name] = file
        for file in files.values():
            self._add_file(file, files)

    def _add_file(self, file, files) -> None:
        if file.name in self._files:
            return
        self._files.add(file.name)
        for name in file.dependency:
            if name in files:
                self._add_file(files[name], files)
            elif name not in self._files:
                self._add(self._ask(file_by_filename=name))
        self._pool.Add(file)

    def service(self, name: str):
        reply = self._ask(file_containing_symbol=name)
        if reply.HasField("error_response"):
            raise AssertionError(reply.error_response)
        self._add(reply)
        return self._pool.FindServiceByName(name)

    def call(self, service: str, method: str, fields: dict):
        """`fields` as keyword arguments of the request message."""
        described = self.service(service).methods_by_name[method]
        factory = message_factory.MessageFactory(self._pool)
        request = factory.GetPrototype(described.input_type)(**fields)
        reply = factory.GetPrototype(described.output_type)
        invoke = self._channel.unary_unary(
            f"/{service}/{method}",
            type(request).SerializeToString,
            reply.FromString,
        )
        return invoke(request, timeout=30)


class ReflectionTest(DaemonTest):
    def setUp(self) -> None:
        self.channel = grpc.insecure_channel(self.daemon.grpc_address)
        self.addCleanup(self.channel.close)
        self.server = Reflection(self.channel)

    def test_services_are_listed_on_both_listeners(self) -> None:
        self.assertEqual(self.server.services(), TENANT_SERVICES)
        with grpc.insecure_channel(self.daemon.admin_address) as channel:
            self.assertEqual(
                Reflection(channel).services(),
                TENANT_SERVICES | {"preproc.v1.Admin"},
            )

    def test_every_listed_service_can_be_described(self) -> None:
        for name in self.server.services() - {REFLECTION}:
            with self.subTest(service=name):
                self.assertTrue(self.server.service(name).methods)

    def test_unknown_symbol_is_an_error_reply(self) -> None:
        with self.assertRaises(AssertionError):
            self.server.service("preproc.v1.Nothing")

    def test_health(self) -> None:
        for service in ("", "preproc.v1.Preproc", "preproc.v1.Buffers"):
            reply = self.server.call(
                "grpc.health.v1.Health", "Check", {"service": service}
            )
            self.assertEqual(reply.status, 1)  # SERVING
        with self.assertRaises(grpc.RpcError) as caught:
            self.server.call(
                "grpc.health.v1.Health", "Check", {"service": "no.Such"}
            )
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_capabilities(self) -> None:
        reply = self.server.call("preproc.v1.Preproc", "Capabilities", {})
        built = {o.operation: o.available for o in reply.operations}
        self.assertTrue(built["convert"])
        self.assertIn("cpu", [b.name for b in reply.backends])
        self.assertTrue(reply.version)
        self.assertEqual(reply.limits.max_fds_per_frame, 8)

    def test_inline_convert(self) -> None:
        content = encode(make_picture(120, 90), "JPEG")
        reply = self.server.call(
            "preproc.v1.Preproc",
            "Convert",
            {
                "source": {"inline_bytes": content},
                "destination": {
                    "inline": 1,
                    "layout": {"format": 2, "width": 64, "height": 64},
                },
                "spec": {"fit": 2},
            },
        )
        self.assertEqual(len(reply.inline_bytes), 64 * 64 * 3)
        where = reply.placement.destination
        self.assertEqual(
            (where.x, where.y, where.width, where.height), (0, 8, 64, 48)
        )
        # Padding above, picture in the middle.
        self.assertEqual(reply.inline_bytes[:3], bytes([114] * 3))
        self.assertGreater(len(set(reply.inline_bytes)), 32)
        self.assertEqual(reply.info.file_format, "jpeg")
        self.assertEqual(reply.report.backend, "cpu")


if __name__ == "__main__":
    unittest.main()
