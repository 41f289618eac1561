// The official TypeScript SDK's own client signs in at our authorization server and calls a tool: version 1 or 2, by the
// second argument. Prints what the tool said.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
import { signIn } from './browser.mjs';

const [, , endpoint, version] = process.argv;
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = version === '1'
    ? { ...await import('@modelcontextprotocol/sdk/client/index.js'),
        ...await import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        ...await import('@modelcontextprotocol/sdk/client/auth.js') }
    : await import('@modelcontextprotocol/client');

// What a program keeps while it signs in.
const kept = {};
let back;
const authProvider = {
    redirectUrl: 'http://127.0.0.1:49153/callback',
    clientMetadata: {
        client_name: 'The SDK', redirect_uris: ['http://127.0.0.1:49153/callback'],
        grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
        token_endpoint_auth_method: 'none',
    },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => { kept.client = client; },
    tokens: () => kept.tokens,
    saveTokens: (tokens) => { kept.tokens = tokens; },
    codeVerifier: () => kept.verifier,
    saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
    discoveryState: () => kept.discovery,
    saveDiscoveryState: (discovery) => { kept.discovery = discovery; },
    redirectToAuthorization: async (url) => { back = await signIn(url); },
};

const connect = async () => {
    const client = new Client({ name: 'judge', version: '1.0.0' });
    const transport = new StreamableHTTPClientTransport(new URL(endpoint), { authProvider });
    try {
        await client.connect(transport);
        return client;
    } catch (error) {
        if (!(error instanceof UnauthorizedError) || !back) throw error;
        // What stands in the address that the browser was sent back to; newer clients check all of it.
        const answer = back.searchParams;
        await transport.finishAuth(version === '1' ? answer.get('code') : answer);
        return undefined;
    }
};

const client = (await connect()) ?? (await connect());
if (!client) throw new Error('signed in, and still not let in');
const answer = await client.callTool({ name: 'time__now', arguments: { timezone: 'Asia/Tokyo' } });
console.log(JSON.stringify(answer.content));
await client.close();
