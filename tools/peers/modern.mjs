// A server of the newest revision that is not ours: the official TypeScript SDK 2, over stdio, or over HTTP where its
// argument is `http` (it prints its URL).
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod/v4';

const text = (words) => ({ content: [{ type: 'text', text: words }] });

function modern() {
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
}

if (process.argv[2] === 'http') {
    // Old applications get an error: what speaks to them through us speaks the new protocol here.
    const handler = createMcpHandler(modern, { legacy: 'reject' });
    const http = createServer(async (req, res) => {
        const bare = req.method === 'GET' || req.method === 'HEAD';
        const body = bare ? {} : { body: Readable.toWeb(req), duplex: 'half' };
        const gone = new AbortController();
        res.on('close', () => gone.abort());
        const url = new URL(req.url, `http://${req.headers.host}`);
        const request = new Request(url, { method: req.method, headers: req.headers, signal: gone.signal, ...body });
        const answer = await handler.fetch(request);
        res.writeHead(answer.status, Object.fromEntries(answer.headers));
        if (answer.body) Readable.fromWeb(answer.body).on('error', () => res.end()).pipe(res);
        else res.end();
    });
    http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
} else {
    serveStdio(modern);
}
