"""Server, and a list of variables for each client."""

import asyncio
import json
import os
import sys

import longhaul

async def listed(server):
    async with longhaul.AsyncClient(server, timeout=10) as client:
        return len(await client.list())

found = []
for variables in json.loads(sys.argv[2]):
    os.environ.update(variables)
    try:
        with longhaul.Client(sys.argv[1], timeout=10) as client:
            found.append([len(client.list()), asyncio.run(listed(sys.argv[1]))])
    except longhaul.LonghaulError as error:
        found.append([error.code, str(error)])
    for name in variables:
        del os.environ[name]
print(json.dumps(found))
