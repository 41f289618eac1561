// A server of 2025-11-25 that is not ours (the official TypeScript SDK 1, over stdio) and declares the extension for MCP
// Apps, which the example servers of MCP Apps leave out. Its tool answers with the extensions that its client declares.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';

const capabilities = { extensions: { 'io.modelcontextprotocol/ui': { declaredBy: 'declares' } } };
const server = new McpServer({ name: 'declares', version: '1.0.0' }, { capabilities });
server.registerTool('declared', { description: 'The extensions of the client' }, async () => {
    const { extensions } = server.server.getClientCapabilities() ?? {};
    return { content: [{ type: 'text', text: JSON.stringify(extensions ?? {}) }] };
});
await server.connect(new StdioServerTransport());
