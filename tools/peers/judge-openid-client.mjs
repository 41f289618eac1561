// A certified OAuth client library that is not ours goes through everything that our authorization server offers. Prints
// what was seen, one check a line; the first that fails ends it.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
import assert from 'node:assert/strict';
import * as client from 'openid-client';
import { signIn } from './browser.mjs';

const endpoint = new URL(process.argv[2]);
const redirect = 'http://127.0.0.1:49152/callback';
const local = { execute: [client.allowInsecureRequests], algorithm: 'oauth2' };

// What the server behind the endpoint answers whoever may ask.
const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {},
} } });
const headers = () => new Headers({
    'content-type': 'application/json', accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list',
});

const resource = await (await fetch(new URL('/.well-known/oauth-protected-resource/mcp', endpoint))).json();
assert.equal(resource.resource, endpoint.href);
const issuer = new URL(resource.authorization_servers[0]);
const config = await client.dynamicClientRegistration(
    issuer,
    { client_name: 'A judge', redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none' },
    client.None(),
    local,
);
console.log('found and registered');

async function authorize(more) {
    const verifier = client.randomPKCECodeVerifier();
    const state = client.randomState();
    const url = client.buildAuthorizationUrl(config, {
        redirect_uri: redirect, scope: 'mcp', resource: endpoint.href, state,
        code_challenge: await client.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
    });
    // It checks `iss` against the metadata, and `state`.
    const back = await signIn(url);
    const checks = { pkceCodeVerifier: verifier, expectedState: state };
    return client.authorizationCodeGrant(config, back, checks, { resource: endpoint.href }, more);
}
const ask = (token, more) =>
    client.fetchProtectedResource(config, token, endpoint, 'POST', list, headers(), more);

const tokens = await authorize();
assert.equal(tokens.scope, 'mcp');
const listed = await ask(tokens.access_token);
assert.equal(listed.status, 200);
assert.ok((await listed.json()).result.tools.length > 0);
console.log('a code, a token, a call');

const renewed = await client.refreshTokenGrant(config, tokens.refresh_token, { resource: endpoint.href });
assert.notEqual(renewed.refresh_token, tokens.refresh_token);
assert.equal((await ask(renewed.access_token)).status, 200);
console.log('refreshed');

await client.tokenRevocation(config, renewed.refresh_token);
await assert.rejects(client.refreshTokenGrant(config, renewed.refresh_token), { error: 'invalid_grant' });
await assert.rejects(ask(renewed.access_token), (error) => error.cause?.[0]?.scheme === 'bearer' || error.status === 401);
console.log('revoked');

const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'));
const bound = await authorize({ DPoP });
assert.equal(bound.token_type, 'dpop');
assert.equal((await ask(bound.access_token, { DPoP })).status, 200);
const stolen = await fetch(endpoint, {
    method: 'POST', body: list, headers: { ...Object.fromEntries(headers()), authorization: `Bearer ${bound.access_token}` },
});
assert.equal(stolen.status, 401);
await client.refreshTokenGrant(config, bound.refresh_token, {}, { DPoP });
console.log('bound to a key');
