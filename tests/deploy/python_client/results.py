"""Curves, checkpoints and asyncio, of a job that has ended: server, folder to download to."""

import asyncio
import json
import os
import shutil
import sys

import longhaul

client = longhaul.Client(sys.argv[1], timeout=10)
out = sys.argv[2]
job = client.get("tiny")
found = {"state": [str(job.state), str(longhaul.JobState.COMPLETED)]}
curves = client.curves("tiny")
found["names"] = sorted({row["name"] for row in curves})
found["of the pool"] = sorted({row["pool"] for row in client.curves("tiny", ["train/loss"])})
found["outer"] = sorted({row["pool"] for row in client.curves("tiny", ["eval/loss"])}, key=str)
found["step"] = client.download("tiny", out)
try:
    client.download("tiny", out)
except FileExistsError as error:
    found["again"] = str(error)
# A copy that broke off: a file is half there, another is damaged.
shutil.copytree(out, out + "-2.partial")
first, second = sorted(name for name in os.listdir(out) if name != "manifest.json")[:2]
os.truncate(f"{out}-2.partial/{first}", os.path.getsize(f"{out}/{first}") // 2)
with open(f"{out}-2.partial/{second}", "r+b") as file:
    file.write(b"damaged")
found["partial"] = [client.download("tiny", out + "-2", step=60), str(os.path.exists(out + "-2.partial"))]
for name in os.listdir(out):
    assert open(f"{out}/{name}", "rb").read() == open(f"{out}-2/{name}", "rb").read(), name
try:
    client.download("tiny", out + "-3", step=1)
except longhaul.LonghaulError as error:
    found["unknown"] = error.code

async def main():
    async with longhaul.AsyncClient(sys.argv[1], timeout=10) as client:
        seen = [str(update.state) async for update in client.watch("tiny")]
        try:
            await client.get("nobody")
        except longhaul.LonghaulError as error:
            reason = error.reason
        return [[job.name for job in await client.list()], str((await client.wait("tiny", timeout=10)).state), seen, [pool.name for pool in await client.pools()],
                await client.curves("tiny") == curves, reason]

found["aio"] = asyncio.run(main())
print(json.dumps(found))
