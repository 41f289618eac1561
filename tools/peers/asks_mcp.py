# A server that is not ours (the official Python SDK, over stdio) and asks with requests of its own, which exist only up to
# 2025-11-25; it speaks 2026-07-28 too.
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("asks-mcp")


class Guest(BaseModel):
    name: str


@server.tool()
async def greet(ctx: Context) -> str:
    answer = await ctx.elicit("Who is there?", Guest)
    return f"Salve, {answer.data.name}!"


@server.tool()
async def compose(ctx: Context) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="?"))
    answer = await ctx.session.create_message([question], max_tokens=50)
    return f"composed: {answer.content.text}"


@server.tool()
async def folders(ctx: Context) -> str:
    answer = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def plain() -> str:
    return "nothing was asked"


server.run("stdio")
