#!/bin/sh
# Makes the secrets of compose.yaml in the folder `secrets`, as far as they are missing. Prints none.
# The certificate is self-signed, for a trial: replace secrets/tls_pem by the chain and key of a real one.
#   ./make-secrets.sh mcp.example.org
set -eu
name=${1:-mcp.example.org}
cd "$(dirname "$0")"
# Other users of this machine cannot enter the folder. The files are readable, because the users of the containers differ.
mkdir -p secrets
chmod 0700 secrets
umask 022
for secret in fleet_secret postgres_password redis_password ann_password; do
    # Hexadecimal digits need no escape in a URL.
    [ -s "secrets/$secret" ] || openssl rand -hex 32 >"secrets/$secret"
done
# Redis keeps the hash of the password. The user can neither change settings nor see keys of others.
hash=$(tr -d '\n' <secrets/redis_password | openssl dgst -sha256 -r | cut -d ' ' -f 1)
rules='resetchannels ~h:* &h:* +@all -@admin -@dangerous +info +config|get'
printf 'user default off\nuser hospes on #%s %s\n' "$hash" "$rules" >secrets/redis_users
if ! [ -s secrets/tls_pem ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 -subj "/CN=$name" \
        -addext "subjectAltName=DNS:$name" -keyout secrets/tls.key -out secrets/tls.crt 2>/dev/null
    cat secrets/tls.crt secrets/tls.key >secrets/tls_pem
    rm secrets/tls.crt secrets/tls.key
fi
