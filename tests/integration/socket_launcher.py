"""Starts a program with listening sockets, as systemd does (sd_listen_fds(3)).

Usage: socket_launcher.py NAME=PATH=TYPE... -- PROGRAM [ARGUMENT...]
NAME is the FileDescriptorName, TYPE the number of SOCK_STREAM or
SOCK_SEQPACKET. The process becomes the program: its id is in LISTEN_PID.
"""

import os
import socket
import sys

FIRST_FD = 3


def main() -> None:
    split = sys.argv.index("--")
    wanted, command = sys.argv[1:split], sys.argv[split + 1 :]
    names, listeners = [], []
    for word in wanted:
        name, path, kind = word.split("=")
        listener = socket.socket(socket.AF_UNIX, int(kind))
        listener.bind(path)
        listener.listen(16)
        names.append(name)
        listeners.append(listener)
    # Out of the way first: the targets 3, 4, ... may be in use by a listener.
    high = [os.dup(listener.fileno()) for listener in listeners]
    moved = [fd + 100 for fd in high]
    for fd, target in zip(high, moved):
        os.dup2(fd, target)
    for i, fd in enumerate(moved):
        os.dup2(fd, FIRST_FD + i, inheritable=True)
    os.environ["LISTEN_FDS"] = str(len(names))
    os.environ["LISTEN_FDNAMES"] = ":".join(names)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.closerange(FIRST_FD + len(names), 256)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
