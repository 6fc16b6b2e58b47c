"""The broker of a task's sockets: a process beside the runner that makes those calls of the task that name an address.

The kernel suspends `connect`, `sendmsg`, `sendmmsg`, and `sendto` with an address, and tells the broker the arguments. The broker
copies the data behind the pointers, refuses addresses that are out of bounds, and makes the call on the same socket with its own
copy. So C libraries work like Python's `socket`, a call cannot be changed after it was judged, and a socket that connects again
is judged again. On a connected socket the task sends and receives without the broker.

The runner cannot be traced (it is not dumpable), so the broker gets what it needs in another way:

* the runner's memory is a file that the runner opened and handed over before it ran any code of an author;
* its sockets come from the lender (`socket_lender`), which has the same open files.

Neither is trusted: by changing them, the task only decides on which of its sockets an allowed call is made. The broker has no
secrets, no capabilities, and a filter of system calls of its own. It ends with the runner; without it these calls fail. Standard
library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

from noetl_core.tools.sandbox import confine
from noetl_core.tools.sandbox.addresses import Address, Addresses
from noetl_core.tools.sandbox.socket_lender import NO_FILE
from noetl_core.tools.sandbox.system_calls import AF_INET, AF_INET6, AF_UNSPEC, CALLS, MSG_FASTOPEN

MAX_WAITING: Final = 64
"""Calls on blocking sockets in progress. Further calls wait."""
MAX_BYTES: Final = 1 << 20
"""The most bytes sent by one call; the task sends the rest by another, as it must with any socket."""
MAX_ADDRESS: Final = 128
MAX_PIECES: Final = 1024
"""The most buffers and the most messages of one call, as in the kernel."""
LENDING_S: Final = 2.0
"""Seconds that the lender may take. It takes longer only if the task interferes."""

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTIFICATION: Final = struct.Struct("=QIIiIQ6Q")
_ANSWER: Final = struct.Struct("=QqiI")
_MESSAGE: Final = struct.Struct("=QIIQQQQiI")
"""`struct msghdr`: name, its length, buffers, their number, control data, its length, flags."""
_MANY: Final = _MESSAGE.size + 8
"""Bytes of `struct mmsghdr`: a message, and the number of its bytes that were sent."""
_PIECE: Final = struct.Struct("=QQ")
_FLAGS: Final = socket.MSG_OOB | socket.MSG_DONTROUTE | socket.MSG_DONTWAIT | socket.MSG_EOR | 0x8000
"""Flags that are passed on; the last is MSG_MORE. The broker ignores SIGPIPE, whatever MSG_NOSIGNAL says."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Broker:
    """Answers the calls of one runner."""

    def __init__(self, lender: socket.socket, addresses: Addresses) -> None:
        self._lender, self._addresses = lender, addresses
        self._lending = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._listener, self._memory = -1, -1

    def run(self, link: socket.socket, tasks: int) -> None:
        """Take the listener and the memory of the runner, whose numbers come on `link`; then serve until the runner has ended."""
        confine.confine_broker(tasks)
        numbers = link.recv(8)
        if len(numbers) < 8:
            return  # the runner has ended
        self._listener, self._memory = (self._borrow(number) for number in struct.unpack("=ii", numbers))
        link.send(b"R")
        link.close()
        with contextlib.suppress(OSError):
            while True:
                self._serve()

    def _serve(self) -> None:
        """Answer one call, or have a thread answer it. Raises `OSError` when the runner has ended."""
        notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, notification)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT) and not self._has_ended():
                return  # a signal has interrupted the call
            raise
        identity, _thread, _flags, number, _arch, _pointer, *arguments = _NOTIFICATION.unpack(notification)
        try:
            sock = _as_socket(self._borrow(arguments[0] & 0xFFFFFFFF))
        except OSError as error:
            self._fail(identity, error)
            return
        call = BrokeredCall(sock, number, arguments, self._memory, self._addresses)
        if sock.type == socket.SOCK_DGRAM or not os.get_blocking(sock.fileno()):
            self._make(identity, call)
            return
        self._waiting.acquire()
        try:
            threading.Thread(target=self._wait, args=(identity, call), daemon=True).start()
        except RuntimeError:  # the task uses up the threads of this user
            self._waiting.release()
            sock.close()
            self._fail(identity, OSError(errno.EAGAIN, "no thread"))

    def _wait(self, identity: int, call: BrokeredCall) -> None:
        try:
            self._make(identity, call)
        finally:
            self._waiting.release()

    def _make(self, identity: int, call: BrokeredCall) -> None:
        try:
            with call.sock:
                result = call.make()
        except OSError as error:
            self._fail(identity, error)
        except Exception:  # whatever the task sent, it gets an answer
            self._fail(identity, OSError(errno.EINVAL, "no such call"))
        else:
            self._answer(_ANSWER.pack(identity, result, 0, 0))

    def _fail(self, identity: int, error: OSError) -> None:
        self._answer(_ANSWER.pack(identity, 0, -(error.errno or errno.EPERM), 0))

    def _answer(self, answer: bytes) -> None:
        with contextlib.suppress(OSError):  # a signal has interrupted the call, or the runner has ended
            fcntl.ioctl(self._listener, _SEND, bytearray(answer))

    def _borrow(self, number: int) -> int:
        """Return a file of the runner by its number there. Raises `OSError`."""
        request = struct.pack("=I", number)
        until = time.monotonic() + LENDING_S
        with self._lending:
            self._lender.send(request)
            while self._readable(until - time.monotonic()):
                message, files, _flags, _address = socket.recv_fds(self._lender, 8, 1)
                if message == request and files:
                    return files[0]
                for file in files:
                    os.close(file)
                if message == NO_FILE + request:
                    raise OSError(errno.EBADF, "no such file")
                if not message:
                    raise OSError(errno.EPIPE, "the process that lends sockets has ended")
        raise OSError(errno.EIO, "the process that lends sockets does not answer")

    def _readable(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._lender, select.POLLIN)
        return bool(poll.poll(max(0.0, 1000 * seconds)))

    def _has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        return any(event & select.POLLHUP for _file, event in poll.poll(0))


def _as_socket(file: int) -> socket.socket:
    try:
        return socket.socket(fileno=file)
    except OSError:
        os.close(file)
        raise


class BrokeredCall:
    """One call of the task, on one of its sockets."""

    def __init__(self, sock: socket.socket, number: int, arguments: list[int], memory: int, addresses: Addresses) -> None:
        self.sock, self._arguments, self._memory, self._addresses = sock, arguments, memory, addresses
        calls: dict[str, Callable[[], int]] = {
            "connect": self._connect,
            "sendto": self._send_to,
            "sendmsg": self._send_message,
            "sendmmsg": self._send_messages,
        }
        assert CALLS is not None
        self.make = next(call for name, call in calls.items() if CALLS[name] == number)
        """Make the call and return its result. Raises `OSError`."""

    def _connect(self) -> int:
        _file, pointer, length, *_ = self._arguments
        address = self._copied_address(pointer, length)
        if int.from_bytes(address[:2], "little") != AF_UNSPEC:  # AF_UNSPEC would end the connection
            self._check(address)
        return _done(_libc.connect(self.sock.fileno(), address, len(address)))

    def _send_to(self) -> int:
        _file, pointer, size, flags, name, length = self._arguments
        data = self._copy(pointer, self._most(size))
        return self._send(data, flags, self._copied_name(name, length))

    def _send_message(self) -> int:
        _file, pointer, flags, *_ = self._arguments
        return self._sent(pointer, flags)

    def _send_messages(self) -> int:
        _file, pointer, number, flags, *_ = self._arguments
        sent = 0
        for at in range(pointer, pointer + _MANY * min(number & 0xFFFFFFFF, MAX_PIECES), _MANY):
            try:
                size = self._sent(at, flags)
            except OSError:
                if not sent:
                    raise
                break
            os.pwrite(self._memory, struct.pack("=I", size), at + _MESSAGE.size)
            sent += 1
        return sent

    def _sent(self, pointer: int, flags: int) -> int:
        name, length, _, pieces, number, _control, control_length, _, _ = _MESSAGE.unpack(self._copy(pointer, _MESSAGE.size))
        if control_length:
            raise PermissionError(errno.EPERM, "no control data")  # files, and other ways of packets
        if number > MAX_PIECES:
            raise OSError(errno.EMSGSIZE, "too many buffers")
        data = bytearray()
        for at, size in _PIECE.iter_unpack(self._copy(pieces, _PIECE.size * number)):
            data += self._copy(at, self._most(len(data) + size) - len(data))
        return self._send(bytes(data), flags, self._copied_name(name, length))

    def _send(self, data: bytes, flags: int, address: bytes) -> int:
        if flags & MSG_FASTOPEN:
            raise OSError(errno.EOPNOTSUPP, "sending with MSG_FASTOPEN is not supported")
        if self.sock.type == socket.SOCK_DGRAM and address:
            self._check(address)
        elif address and self.sock.family == socket.AF_UNIX:
            raise OSError(errno.EISCONN, "connected for good")
        else:
            address = b""  # TCP connections ignore it
        return _done(
            _libc.sendto(self.sock.fileno(), data, ctypes.c_size_t(len(data)), flags & _FLAGS, address or None, len(address))
        )

    def _check(self, address: bytes) -> None:
        """Raise `OSError` for a socket address that is out of bounds."""
        family, port = int.from_bytes(address[:2], "little"), int.from_bytes(address[2:4], "big")
        reached: Address
        if family == AF_INET and len(address) >= 16:
            reached = ipaddress.IPv4Address(address[4:8])
        elif family == AF_INET6 and len(address) >= 24:
            six = ipaddress.IPv6Address(address[8:24])
            reached = six.ipv4_mapped or six
        else:
            raise OSError(errno.EAFNOSUPPORT, "not an address of IPv4 or IPv6")
        if self._addresses.reason(reached, port) is not None:
            raise PermissionError(errno.EPERM, "out of bounds")

    def _most(self, size: int) -> int:
        """Return how many of the bytes are sent: of a datagram all."""
        if size > MAX_BYTES and self.sock.type == socket.SOCK_DGRAM:
            raise OSError(errno.EMSGSIZE, "too long")
        return min(size, MAX_BYTES)

    def _copied_name(self, pointer: int, length: int) -> bytes:
        """Return the address that a message names, if it names one."""
        return self._copied_address(pointer, length) if pointer and length & 0xFFFFFFFF else b""

    def _copied_address(self, pointer: int, length: int) -> bytes:
        size = length & 0xFFFFFFFF
        if not 2 <= size <= MAX_ADDRESS:
            raise OSError(errno.EINVAL, "no address")
        return self._copy(pointer, size)

    def _copy(self, pointer: int, size: int) -> bytes:
        """Return a copy of the task's memory."""
        try:
            data = os.pread(self._memory, size, pointer)
            while len(data) < size and (more := os.pread(self._memory, size - len(data), pointer + len(data))):
                data += more
        except (OSError, OverflowError):
            data = b""
        if len(data) < size:
            raise OSError(errno.EFAULT, "bad address")
        return data


def _done(result: int) -> int:
    """Return the result of a call of the C library. Raises `OSError`."""
    if result < 0:
        raise OSError(ctypes.get_errno(), "the call failed")
    return result
