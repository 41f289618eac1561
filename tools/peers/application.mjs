// An application that is not ours, and that answers what servers ask: the official TypeScript SDK 1 where the old
// protocol is wanted, SDK 2 where the new one is.
//
//   node application.mjs legacy|modern SERVER CALLS
//
// SERVER is an entry as in `mcpServers`, CALLS a list of `{tool, arguments}`, both JSON. Prints one line of JSON:
// `{tools, answers: [{text, failed, progress, asked}]}`, one answer for each call.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.

const [era, entry, calls] = [process.argv[2], JSON.parse(process.argv[3]), JSON.parse(process.argv[4])];

let asked = [];

/// A value for every field of a form: its default, or something that fits.
function fill(field) {
    if ('default' in field) return field.default;
    if (field.enum) return field.enum[0];
    if (field.oneOf) return field.oneOf[0].const;
    if (field.format === 'email') return 'hospes@example.com';
    if (field.format === 'uri') return 'https://example.com/';
    if (field.format === 'date') return '2026-07-28';
    if (field.format === 'date-time') return '2026-07-28T00:00:00Z';
    switch (field.type) {
        case 'boolean': return true;
        case 'integer':
        case 'number': return field.minimum ?? 7;
        case 'array': return (field.items.enum ?? field.items.anyOf.map((item) => item.const)).slice(0, 1);
        default: return 'Hospes';
    }
}

const answers = {
    'elicitation/create': ({ requestedSchema }) => {
        const fields = Object.entries(requestedSchema.properties);
        return { action: 'accept', content: Object.fromEntries(fields.map(([name, field]) => [name, fill(field)])) };
    },
    'sampling/createMessage': () => ({
        role: 'assistant',
        model: 'scripted',
        content: { type: 'text', text: 'the scripted answer' },
    }),
    'roots/list': () => ({ roots: [{ uri: 'file:///scripted/root', name: 'scripted root' }] }),
};

async function connect() {
    const who = { name: 'application', version: '1.0.0' };
    const capabilities = { elicitation: {}, sampling: {}, roots: { listChanged: true } };
    const url = entry.url && new URL(entry.url);
    const child = { command: entry.command, args: entry.args ?? [], stderr: 'inherit' };
    const answer = (method) => async (request) => {
        asked.push(method);
        return answers[method](request.params);
    };
    if (era === 'legacy') {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const { SSEClientTransport } = await import('@modelcontextprotocol/sdk/client/sse.js');
        const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
        const types = await import('@modelcontextprotocol/sdk/types.js');
        const client = new Client(who, { capabilities });
        client.setRequestHandler(types.ElicitRequestSchema, answer('elicitation/create'));
        client.setRequestHandler(types.CreateMessageRequestSchema, answer('sampling/createMessage'));
        client.setRequestHandler(types.ListRootsRequestSchema, answer('roots/list'));
        const Http = entry.type === 'sse' ? SSEClientTransport : StreamableHTTPClientTransport;
        await client.connect(url ? new Http(url) : new StdioClientTransport(child));
        const call = (params, options) => client.callTool(params, undefined, options);
        return { client, call };
    }
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    const client = new Client(who, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
    for (const method of Object.keys(answers)) client.setRequestHandler(method, answer(method));
    await client.connect(url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(child));
    return { client, call: (params, options) => client.callTool(params, options) };
}

const { client, call } = await connect();
const { tools } = await client.listTools();
const heard = { tools: tools.map((tool) => tool.name), answers: [] };
for (const { tool, arguments: given } of calls) {
    asked = [];
    let progress = 0;
    const options = { onprogress: () => progress++, timeout: 20_000 };
    const [text, failed] = await call({ name: tool, arguments: given }, options).then(
        ({ content, isError }) => [content.map((block) => block.text ?? '').join(''), isError === true],
        (error) => [String(error), true],
    );
    heard.answers.push({ text, failed, progress, asked });
}
console.log(JSON.stringify(heard));
await client.close();
process.exit(0);
