"""Plans, of a spec and of sites: server."""

import asyncio
import json
import pickle
import sys

import longhaul

spec = {"name": "planned", "model": {"transformer": {"layers": 2, "dim": 32, "heads": 2, "ff_dim": 64, "context": 32}},
        "data": {"text": {"path": "/usr/share/common-licenses"}}, "train": {"steps": 100, "batch": 4}, "sync": {"h": 10}, "pools": {"min": 1}}
sites = {"pools": [{"copies": 3, "tokens_per_second": 1000}]}

async def later():
    async with longhaul.AsyncClient(sys.argv[1], timeout=10) as client:
        return await client.plan(spec, sites)

def fields(sites):
    try:
        client.plan(spec, sites)
    except longhaul.LonghaulError as error:
        return [field.field for field in error.fields]

client = longhaul.Client(sys.argv[1], timeout=10)
connected = client.plan(spec)
plans = [pickle.loads(pickle.dumps(client.plan(spec, sites))), asyncio.run(later())]
print(json.dumps({"connected": [pool.name for pool in connected.pools], "seconds": connected.seconds, "assumed": list(connected.assumptions),
                  "described": [[plan.sites.pools[0].name, plan.pools[0].copies, plan.pools[0].tokens_per_second] for plan in plans],
                  "shown": repr(connected), "typo": fields({"pools": [{"up_mbps": 1}]}), "refused": fields({"pools": [{"copies": 5000}]}),
                  "listed": [job.name for job in client.list()]}))
