"""Serves fixtures of mcp-defense-bench without importing its libraries for each of them.

Started with a socket's path, it imports the fixture server of the bench once, and forks a process for each connection. Started
with a socket's path and the arguments of that server, it is the command that the bench and the gateway start: it hands its
standard streams to such a process and waits for its end.
"""

import array
import json
import os
import socket
import sys


async def warm_up() -> None:
    """Uses a server once, so that what its libraries build at first use is there for each process."""
    from fastmcp import Client
    from mcp_defense_bench.adapters import stdio_server

    tool = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    fixture = {"type": "benign-tool-result", "tool": tool, "result": {"content": [{"type": "text", "text": "seen"}]}}
    async with Client(stdio_server.build(fixture, os.devnull)) as client:
        await client.list_tools()
        await client.call_tool("look", {"a": "b"})


def serve(path: str) -> None:
    import asyncio
    import signal

    from mcp_defense_bench.adapters import stdio_server

    asyncio.run(warm_up())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    while True:
        peer, _ = listener.accept()
        if os.fork():
            peer.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        text, ancillary, _, _ = peer.recvmsg(1 << 16, socket.CMSG_SPACE(12))
        streams = array.array("i")
        for _, _, data in ancillary:
            streams.frombytes(data[: 12])
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        status = 0
        try:
            stdio_server.main(json.loads(text))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            status = 1
        peer.sendall(bytes([status]))
        os._exit(status)


def hand_over(path: str, arguments: list[str]) -> int:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    text = json.dumps([os.path.abspath(argument) for argument in arguments]).encode()
    peer.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    end = peer.recv(1)
    return end[0] if end else 1


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        sys.exit(hand_over(sys.argv[1], sys.argv[2:]))
