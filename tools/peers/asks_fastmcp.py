# The same with FastMCP, over stdio, or over HTTP where its argument is a port.
import sys

from fastmcp import Context, FastMCP
from mcp_types import SamplingMessage, TextContent

server = FastMCP("asks-fastmcp")


@server.tool
async def greet(ctx: Context) -> str:
    answer = await ctx.elicit("Who is there?", response_type=str)
    return f"Salve, {answer.data}!"


@server.tool
async def compose(ctx: Context) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="?"))
    answer = await ctx.session.create_message([question], max_tokens=50)
    return f"composed: {answer.content.text}"


@server.tool
async def folders(ctx: Context) -> str:
    answer = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool
async def plain() -> str:
    return "nothing was asked"


if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
else:
    server.run(transport="stdio", show_banner=False)
