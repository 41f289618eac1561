# An OAuth client library that is not ours, and of another language, goes through what our authorization server offers.
# Its arguments: the endpoint, a client's id and secret. Prints what was seen, one check a line; the first that fails ends it.
import re
import sys
from urllib.parse import urljoin

import requests
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session

endpoint, client_id, client_secret = sys.argv[1:4]
REDIRECT = "http://127.0.0.1:49154/callback"
LIST = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/list",
    "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }},
}
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list",
}
LIMIT = 30


def get(url):
    answer = requests.get(url, timeout=LIMIT)
    answer.raise_for_status()
    return answer.json()


def sign_in(url):
    """What a person does in a browser; the address that the application is called back at."""
    browser = requests.Session()

    def go_on(page, path, **fields):
        for name in ("request", "csrf"):
            fields[name] = re.search(f'name="{name}" value="([^"]*)"', page.text)[1]
        return browser.post(urljoin(url, path), data=fields, allow_redirects=False, timeout=LIMIT)

    page = browser.get(url, timeout=LIMIT)
    page = go_on(page, "/sign-in", user="ann", password="correct horse")
    return go_on(page, "/consent", decision="allow").headers["location"]


def tools(session):
    answer = session.post(endpoint, json=LIST, headers=HEADERS, timeout=LIMIT)
    answer.raise_for_status()
    return answer.json()["result"]["tools"]


resource = get(urljoin(endpoint, "/.well-known/oauth-protected-resource/mcp"))
issuer = resource["authorization_servers"][0]
server = get(urljoin(issuer, "/.well-known/oauth-authorization-server"))
registered = requests.post(
    server["registration_endpoint"],
    json={"client_name": "A judge", "redirect_uris": [REDIRECT],
          "grant_types": ["authorization_code", "refresh_token"]},
    timeout=LIMIT,
)
assert registered.status_code == 201, registered.text
registered = registered.json()
assert registered["token_endpoint_auth_method"] == "client_secret_basic"
session = OAuth2Session(
    registered["client_id"], registered["client_secret"], redirect_uri=REDIRECT, scope="mcp",
    token_endpoint_auth_method="client_secret_basic", code_challenge_method="S256",
)
verifier = "judged-" + "x" * 40
url, state = session.create_authorization_url(
    server["authorization_endpoint"], code_verifier=verifier, resource=endpoint
)
back = sign_in(url)
assert "iss=" in back
token = session.fetch_token(
    server["token_endpoint"], authorization_response=back, state=state, code_verifier=verifier, resource=endpoint
)
assert token["scope"] == "mcp" and tools(session)
print("registered, a code, a token, a call")

old = token["refresh_token"]
token = session.refresh_token(server["token_endpoint"], refresh_token=old)
assert token["refresh_token"] != old and tools(session)
print("refreshed")

session.revoke_token(server["revocation_endpoint"], token["refresh_token"]).raise_for_status()
try:
    session.refresh_token(server["token_endpoint"], refresh_token=token["refresh_token"])
    raise AssertionError("a revoked token was refreshed")
except OAuthError as error:
    assert error.error == "invalid_grant", error
print("revoked")

for method in ("client_secret_basic", "client_secret_post"):
    machine = OAuth2Session(client_id, client_secret, scope="mcp", token_endpoint_auth_method=method)
    token = machine.fetch_token(server["token_endpoint"], grant_type="client_credentials", resource=endpoint)
    assert "refresh_token" not in token and tools(machine)
    said = machine.introspect_token(server["introspection_endpoint"], token["access_token"])
    assert said.json()["active"] and said.json()["sub"] == client_id, said.text
print("a client for itself")
