"""A client of the direct transport, written from the contract alone.

One protobuf frame per SOCK_SEQPACKET packet, descriptors as SCM_RIGHTS. The
raw pieces (`send_raw`, `receive`) are public, because hostile tests need them.
"""

import array
import fcntl
import mmap
import os
import socket

import grpc
from google.protobuf.message import Message
from preproc.v1 import buffers_pb2, direct_pb2, error_pb2, image_pb2
from preproc.v1 import preproc_pb2

MAX_FRAME_BYTES = 64 * 1024
MAX_FDS = 8
RECEIVE_BOUND_S = 60.0

SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
ALL_SEALS = SIZE_SEALS | fcntl.F_SEAL_WRITE

TOKEN_KEY = "preproc-session-bin"
READ = buffers_pb2.BUFFER_ACCESS_READ
WRITE = buffers_pb2.BUFFER_ACCESS_WRITE


class RequestError(Exception):
    """The daemon refused a request."""

    def __init__(self, code: int, message: str, detail) -> None:
        self.code = grpc_code_name(code)
        self.reason = error_pb2.ErrorReason.Name(detail.reason).removeprefix(
            "ERROR_REASON_"
        )
        self.message = message
        self.field = detail.field
        self.detail = detail
        super().__init__(f"{self.code} {self.reason} {self.field}: {message}")


class SessionEnded(Exception):
    """The daemon closed the connection."""


def grpc_code_name(code: int) -> str:
    for status in grpc.StatusCode:
        if status.value[0] == code:
            return status.name
    return str(code)


def make_memfd(content: bytes, seals: int = SIZE_SEALS, name: str = "t") -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    written = 0
    while written < len(content):
        written += os.pwrite(fd, content[written:], written)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def make_empty_memfd(size: int, seals: int = SIZE_SEALS, name: str = "t") -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def read_memfd(fd: int, size: int) -> bytes:
    with mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ) as view:
        return view[:size]


class DirectClient:
    """A connection; after `hello` a session. Close it to end the session."""

    def __init__(self, path: str, hello: bool = True, name: str = "test"):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(RECEIVE_BOUND_S)
        self.socket.connect(path)
        self._next_id = 0
        self._fds: list[int] = []
        # Sent right before the next reply is looked for; see `call`.
        self.welcome: direct_pb2.Welcome | None = None
        if hello:
            self.welcome = self.hello(name)

    def __enter__(self) -> "DirectClient":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def keep(self, fd: int) -> int:
        """Closes `fd` together with the connection."""
        self._fds.append(fd)
        return fd

    # Raw pieces.

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def send_raw(self, data: bytes, fds: list[int] | tuple = ()) -> None:
        control = []
        if fds:
            rights = array.array("i", fds).tobytes()
            control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        self.socket.sendmsg([data], control)

    def receive(self) -> tuple[direct_pb2.ServerFrame, list[int]]:
        """One frame with its descriptors; SessionEnded at end of file."""
        space = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
        try:
            data, control, flags, _ = self.socket.recvmsg(
                MAX_FRAME_BYTES + 1, space, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            raise SessionEnded() from None
        if not data:
            raise SessionEnded()
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise AssertionError(f"the daemon's packet was cut: {flags:#x}")
        fds = array.array("i")
        for level, kind, rights in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(rights)
        return direct_pb2.ServerFrame.FromString(data), list(fds)

    # Requests.

    def send(self, body: str, message: Message, fds=(), request_id=0) -> int:
        frame = direct_pb2.ClientFrame(request_id=request_id or self.new_id())
        getattr(frame, body).CopyFrom(message)
        self.send_raw(frame.SerializeToString(), fds)
        return frame.request_id

    def answer(self, request_id: int) -> tuple[Message, list[int]]:
        """The reply to one request; events on the way are dropped."""
        while True:
            frame, fds = self.receive()
            if frame.request_id != request_id:
                if frame.request_id == 0 and not frame.HasField("error"):
                    continue
                raise AssertionError(
                    f"reply to {frame.request_id} instead of {request_id}: "
                    f"{frame}"
                )
            if frame.HasField("error"):
                error = frame.error
                raise RequestError(error.code, error.message, error.detail)
            return getattr(frame, frame.WhichOneof("body")), fds

    def call(self, body: str, message: Message, fds=()) -> Message:
        reply, received = self.answer(self.send(body, message, fds))
        for fd in received:
            self.keep(fd)
        return reply

    def hello(self, name: str = "test") -> direct_pb2.Welcome:
        return self.call(
            "hello",
            direct_pb2.Hello(min_version=1, max_version=1, client_name=name),
        )

    def echo(self, payload: bytes = b"ping") -> bytes:
        return self.call("echo", direct_pb2.EchoRequest(payload=payload)).payload

    def register(
        self,
        buffer_id: int,
        fd: int,
        access: int = buffers_pb2.BUFFER_ACCESS_READ_WRITE,
        layout: image_pb2.ImageLayout | None = None,
        generation: int = 1,
    ) -> buffers_pb2.RegisterBufferReply:
        request = buffers_pb2.RegisterBufferRequest(
            buffer_id=buffer_id,
            generation=generation,
            access=access,
            fd_count=1,
            layout=layout,
        )
        return self.call("register_buffer", request, [fd])

    def unregister(self, buffer_id: int, generation: int = 1) -> None:
        request = buffers_pb2.UnregisterBufferRequest(
            buffer_id=buffer_id, generation=generation
        )
        self.call("unregister_buffer", request)

    def convert(
        self, request: preproc_pb2.ConvertRequest
    ) -> preproc_pb2.ConvertReply:
        return self.call("convert", request)


class GrpcClient:
    """Unary calls on grpc.sock or admin.sock; errors as RequestError."""

    def __init__(self, address: str, token: bytes | None = None) -> None:
        self.channel = grpc.insecure_channel(
            address, [("grpc.max_receive_message_length", 16 << 20)]
        )
        self._metadata = [(TOKEN_KEY, token)] if token is not None else []

    def __enter__(self) -> "GrpcClient":
        return self

    def __exit__(self, *_) -> None:
        self.channel.close()

    def call(
        self, method: str, request: Message, reply: type[Message]
    ) -> Message:
        """`method` as "preproc.v1.Preproc/Convert"."""
        invoke = self.channel.unary_unary(
            f"/{method}", type(request).SerializeToString, reply.FromString
        )
        try:
            return invoke(
                request, metadata=self._metadata, timeout=RECEIVE_BOUND_S
            )
        except grpc.RpcError as error:
            raise error_of(error) from None

    def convert(
        self, request: preproc_pb2.ConvertRequest
    ) -> preproc_pb2.ConvertReply:
        return self.call(
            "preproc.v1.Preproc/Convert", request, preproc_pb2.ConvertReply
        )


def error_of(error: grpc.RpcError) -> RequestError:
    """The first ErrorDetail of the status details, as clients read it."""
    detail = error_pb2.ErrorDetail()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = error_pb2.RpcStatus.FromString(value)
            if status.details:
                status.details[0].Unpack(detail)
    return RequestError(error.code().value[0], error.details(), detail)
