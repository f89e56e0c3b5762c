#!/bin/sh
# Makes the certificates of the tests of TLS: an authority, a server it has signed, and the key of another one.
# They are for tests only, so nothing is secret.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for key in "$folder/authority.key" server.key other.key; do
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$key"
done
cat >"$folder/config" <<END
[ca]
default_ca = tests
[tests]
database = $folder/index
new_certs_dir = $folder
serial = $folder/serial
default_md = sha256
policy = names
[names]
commonName = supplied
[authority]
basicConstraints = critical, CA:TRUE
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
END
: >"$folder/index"
echo 01 >"$folder/serial"
sign() {
  openssl ca -batch -notext -config "$folder/config" -keyfile "$folder/authority.key" \
    -startdate 20200101000000Z -enddate 21200101000000Z "$@"
}
request() { openssl req -new -config /dev/null -key "$1" -subj "$2" -out "$3"; }
request "$folder/authority.key" '/CN=OpenETW tests' "$folder/authority.csr"
sign -selfsign -extensions authority -in "$folder/authority.csr" -out authority.pem
request server.key /CN=localhost "$folder/server.csr"
sign -cert authority.pem -extensions server -in "$folder/server.csr" -out server.pem
chmod 644 ./*.key
