"""Free ports on 127.0.0.1."""

from __future__ import annotations

import random
import socket

FIRST, LAST = 10_000, 32_767
"""Below the range from which Linux takes the ports of outgoing connections, so that none of
those can sit on a port between our choosing it and the server's binding it."""


def free_ports(count: int, chance: random.Random) -> tuple[int, ...]:
    """Different ports that were free a moment ago. Another process may take one: try again."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(candidate)
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind(("127.0.0.1", chance.randint(FIRST, LAST)))
            except OSError:
                held.pop().close()
        return tuple(port.getsockname()[1] for port in held)
    finally:
        for port in held:
            port.close()
