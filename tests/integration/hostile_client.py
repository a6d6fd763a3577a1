"""A client that is about to be killed: does its part, says so, then waits.

Usage: hostile_client.py DIRECT_SOCKET ROLE
  unread  sends descriptors and does not read the answer
  idle    sends descriptors, reads the answer, asks for nothing
  busy    sends descriptors and as many converts as a session may have
"""

import signal
import sys

from direct_client import ALL_SEALS, DirectClient, make_empty_memfd
from direct_client import make_memfd
from pictures import buffer_request, encode, make_picture
from preproc.v1 import buffers_pb2

SIDE = 2048
REQUESTS = 32


def main() -> None:
    path, role = sys.argv[1:]
    client = DirectClient(path, name=role)
    if role == "unread":
        request = buffers_pb2.RegisterBufferRequest(
            buffer_id=1, generation=1, fd_count=1
        )
        client.send("register_buffer", request, [make_empty_memfd(1 << 20)])
    else:
        photo = encode(make_picture(SIDE, SIDE), "JPEG")
        client.register(
            1, make_memfd(photo, ALL_SEALS), buffers_pb2.BUFFER_ACCESS_READ
        )
        client.register(2, make_empty_memfd(SIDE * SIDE * 3))
    if role == "busy":
        for _ in range(REQUESTS):
            client.send("convert", buffer_request(1, 2, SIDE, SIDE))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
