// An application that is not ours and shows MCP Apps: the official TypeScript SDK 1 where the old protocol is wanted,
// SDK 2 where the new one is. It reads the page of every tool that has one, and calls that tool.
//
//   node apps.mjs legacy|modern URL
//
// Prints one line of JSON: `{extensions, resources, tools: [{name, uri, page, text}], declared}`.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
const [era, url] = [process.argv[2], new URL(process.argv[3])];

const who = { name: 'apps', version: '1.0.0' };
const UI = 'io.modelcontextprotocol/ui';
const PAGE = 'text/html;profile=mcp-app';
const capabilities = { extensions: { [UI]: { mimeTypes: [PAGE] } } };

async function connect() {
    if (era === 'legacy') {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const client = new Client(who, { capabilities });
        await client.connect(new StreamableHTTPClientTransport(url));
        return client;
    }
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const client = new Client(who, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await client.connect(new StreamableHTTPClientTransport(url));
    return client;
}

const client = await connect();
const said = ({ content }) => content.map((block) => block.text ?? '').join('');
const { tools } = await client.listTools();
const { resources } = await client.listResources();
const seen = {
    extensions: client.getServerCapabilities().extensions ?? {},
    resources: resources.map((resource) => resource.uri),
    tools: [],
    declared: null,
};
for (const tool of tools) {
    const uri = tool._meta?.ui?.resourceUri;
    const text = said(await client.callTool({ name: tool.name, arguments: {} }));
    if (uri) {
        const { contents } = await client.readResource({ uri });
        const [page] = contents;
        if (page.uri !== uri || page.mimeType !== PAGE) throw new Error(`read ${uri}, got ${page.uri} (${page.mimeType})`);
        seen.tools.push({ name: tool.name, uri, page: page.text, text });
    } else {
        seen.tools.push({ name: tool.name, uri: null, page: null, text });
        if (tool.name.endsWith('declared')) seen.declared = JSON.parse(text);
    }
}
console.log(JSON.stringify(seen));
await client.close();
process.exit(0);
