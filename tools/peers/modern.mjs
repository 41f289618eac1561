// A server of the newest revision that is not ours: the official TypeScript SDK 2, over stdio.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod/v4';

serveStdio(() => {
    const server = new McpServer({ name: 'modern', version: '1.0.0' });
    const shout = { description: 'Says it louder', inputSchema: z.object({ text: z.string() }) };
    server.registerTool('shout', shout, async ({ text }) => ({
        content: [{ type: 'text', text: `${text.toUpperCase()}!` }],
    }));
    return server;
});
