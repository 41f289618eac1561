// A server of the newest revision that is not ours: the official TypeScript SDK 2, over stdio.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
import { McpServer, acceptedContent, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod/v4';

const text = (words) => ({ content: [{ type: 'text', text: words }] });

serveStdio(() => {
    const server = new McpServer({ name: 'modern', version: '1.0.0' });

    const shout = { description: 'Says it louder', inputSchema: z.object({ text: z.string() }) };
    server.registerTool('shout', shout, async (given) => text(`${given.text.toUpperCase()}!`));

    const guest = z.object({ name: z.string() });
    const greet = { description: 'Asks for a name, then greets', inputSchema: z.object({}) };
    server.registerTool('greet', greet, async (_, ctx) => {
        const known = acceptedContent(ctx.mcpReq.inputResponses, 'guest', guest);
        if (known) return text(`Salve, ${known.name}!`);
        const question = inputRequired.elicit({ message: 'Who is there?', requestedSchema: guest });
        return inputRequired({ inputRequests: { guest: question } });
    });
    return server;
});
