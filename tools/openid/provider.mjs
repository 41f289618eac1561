// An OpenID provider that is not ours: npm `oidc-provider`, certified, with its own pages for signing in and agreeing. Whoever
// signs in as NAME is NAME@example.org; all but `eve` are in the group `mcp`, and `root` is in `admins`, too. To one more client, an application without a secret,
// it gives signed tokens for whatever resource that names. It prints its issuer. What is below `/test` is the
// tests' own and no part of it: what it has given out, and taking that back.
// `cargo xtask` copies it beside the installed packages, where its imports resolve.
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const CLIENT = { id: 'hospes-there', secret: 'the-secret-of-hospes' };
const APPLICATION = 'application-there';
const seen = { tokens: [], requests: [], states: [] };

const http = createServer();
http.listen(0, '127.0.0.1', () => {
    const issuer = `http://127.0.0.1:${http.address().port}`;
    const provider = new Provider(issuer, {
        clients: [{
            client_id: CLIENT.id,
            client_secret: CLIENT.secret,
            redirect_uris: ['http://127.0.0.1/upstream/callback'],
            grant_types: ['authorization_code', 'refresh_token'],
            backchannel_logout_uri: 'http://127.0.0.1/sign-in/back-channel-logout',
            backchannel_logout_session_required: true,
        }, {
            client_id: APPLICATION,
            token_endpoint_auth_method: 'none',
            application_type: 'native',
            redirect_uris: ['http://127.0.0.1/callback'],
            grant_types: ['authorization_code', 'refresh_token'],
        }],
        features: {
            backchannelLogout: { enabled: true },
            devInteractions: { enabled: true },
            introspection: { enabled: true },
            revocation: { enabled: true },
            resourceIndicators: {
                enabled: true,
                getResourceServerInfo: (_, resource) => ({
                    scope: 'mcp',
                    audience: resource,
                    accessTokenFormat: 'jwt',
                    jwt: { sign: { alg: 'RS256' } },
                }),
            },
        },
        // Its own refuses loopback addresses.
        fetch: (url, { dispatcher, ...options } = {}) => fetch(url, options),
        claims: { email: ['email', 'email_verified'], groups: ['groups'] },
        scopes: ['openid', 'offline_access', 'email', 'groups'],
        cookies: { keys: ['of the tests'] },
        // Each refresh token is good once, and a second use ends everything that came of the same sign-in.
        rotateRefreshToken: true,
        ttl: { AccessToken: 300, IdToken: 3600, RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600 },
        findAccount: (_, id) => ({
            accountId: id,
            claims: () => ({
                sub: id,
                email: `${id}@example.org`,
                email_verified: true,
                groups: id === 'eve' ? ['guests'] : ['mcp', 'guests', ...(id === 'root' ? ['admins'] : [])],
            }),
        }),
    });
    // Ours listens on a port that nobody knows before it starts.
    provider.Client.prototype.redirectUriAllowed = (uri) =>
        /^http:\/\/127\.0\.0\.1:\d+\/(upstream\/|sign-in\/)?callback$/.test(uri);
    // Where a console has begun a sign-in, it is told of sign-outs.
    let consoleOrigin;
    const { backchannelLogout } = provider.Client.prototype;
    provider.Client.prototype.backchannelLogout = function logOut(...args) {
        if (!consoleOrigin) return undefined;
        this.backchannelLogoutUri = `${consoleOrigin}/sign-in/back-channel-logout`;
        return backchannelLogout.apply(this, args);
    };
    provider.use(async (ctx, next) => {
        await next();
        const { route, params } = ctx.oidc ?? {};
        if (route === 'authorization' && params?.redirect_uri?.endsWith('/sign-in/callback')) {
            consoleOrigin = new URL(params.redirect_uri).origin;
        }
        if (route === 'authorization' && params?.state) seen.states.push(params.state);
        if (route === 'token') {
            seen.requests.push(`${params?.grant_type} ${ctx.status}`);
            for (const name of ['access_token', 'refresh_token', 'id_token']) {
                if (ctx.body?.[name]) seen.tokens.push({ name, token: ctx.body[name] });
            }
        } else if (['introspection', 'revocation', 'userinfo'].includes(route)) {
            seen.requests.push(`${route} ${ctx.status}`);
        }
    });

    const answer = provider.callback();
    const revoke = async () => {
        const last = seen.tokens.findLast(({ name }) => name === 'refresh_token') ?? seen.tokens.at(-1);
        const pair = Buffer.from(`${CLIENT.id}:${CLIENT.secret}`).toString('base64');
        const body = new URLSearchParams({ token: last.token });
        await fetch(`${issuer}/token/revocation`, { method: 'POST', headers: { authorization: `Basic ${pair}` }, body });
    };
    http.on('request', async (req, res) => {
        if (!req.url.startsWith('/test/')) return answer(req, res);
        if (req.url === '/test/revoke') await revoke();
        res.setHeader('content-type', 'application/json');
        res.end(JSON.stringify(seen));
    });
    console.log(issuer);
});

// Whoever started it has gone.
process.stdin.resume();
process.stdin.on('end', () => process.exit());
