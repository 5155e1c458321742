"""Of a coordinator with TLS and tokens: server, folder of the authority, file of a submitter's token."""

import json
import os
import sys

import longhaul

server, ca, token = sys.argv[1:]
authority = ca + "/ca.pem"
found = {}

def refused(name, call):
    try:
        call()
        found[name] = "was not refused"
    except (longhaul.LonghaulError, ValueError) as error:
        found[name] = f"{getattr(error, 'code', 'ValueError')}: {error}"

with longhaul.Client(server, tls_ca=authority, token_file=token, timeout=10) as client:
    job = client.submit({"name": "closed", "model": {"synthetic": {"units": 1, "elements": 128}}, "train": {"steps": 5}, "sync": {"h": 2},
                         "pools": {"names": ["nobody"]}})
    found["listed"] = [job.spec.name for job in client.list()]
    found["logs"] = list(client.logs("closed"))
    os.environ.update(http_proxy="http://127.0.0.1:1", no_proxy="")  # Nobody there would get the token.
    found["metrics"] = client.metrics("closed")
    with longhaul.Client(server, tls_ca=authority, token_file=token, timeout=10) as beside:  # Nor is it asked for this machine.
        found["beside a proxy"] = [job.spec.name for job in beside.list()]
    client.server = "coordinator.example:7070"
    refused("page of another machine", lambda: client.metrics("closed"))
    found["page"] = client.metrics("closed", page=client.describe().http_address)
    del os.environ["http_proxy"], os.environ["no_proxy"]
    client.cancel("closed")
    found["waited"] = client.wait("closed", timeout=10).spec.name
    secret = open(token).read()
    open(token, "w").write("f" * 64)
    refused("replaced", client.list)
    open(token, "w").write(secret)
    found["again"] = len(client.list())
    os.chmod(token, 0o644)
    refused("readable", client.list)
    refused("readable at once", lambda: longhaul.Client(server, tls_ca=authority, token_file=token))
    os.chmod(token, 0o600)
os.environ.update(LONGHAUL_SERVER=server, LONGHAUL_TLS_CA=authority, LONGHAUL_TOKEN_FILE=token)
with longhaul.Client() as client:
    found["variables"] = len(client.list())
del os.environ["LONGHAUL_TLS_CA"], os.environ["LONGHAUL_TOKEN_FILE"]
with longhaul.Client(tls_ca=authority, tls_certificate=ca + "/site-a.pem", tls_key=ca + "/site-a.key", timeout=10) as client:
    refused("a pool", client.list)
with longhaul.Client(tls_ca=ca + "/other/ca.pem", token_file=token, timeout=2) as client:
    refused("another authority", client.list)
with longhaul.Client(timeout=2) as client:
    refused("plaintext", client.list)
refused("token in plaintext", lambda: longhaul.Client(token_file=token))
refused("nobody", lambda: longhaul.Client(tls_ca=authority))
refused("half", lambda: longhaul.Client(tls_ca=authority, tls_certificate=ca + "/site-a.pem"))
for name, text in (("short.token", "short"), ("lines.token", "one-token-of-many\nanother-of-them")):
    path = os.path.join(ca, name)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    open(path, "w").write(text)
    refused(name, lambda: longhaul.Client(tls_ca=authority, token_file=path))
refused("folder", lambda: longhaul.Client(tls_ca=authority, token_file=ca))
refused("none", lambda: longhaul.Client(tls_ca=authority, token_file=ca + "/none"))
print(json.dumps([found, secret.strip()]))
