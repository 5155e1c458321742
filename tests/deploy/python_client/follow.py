"""Follows logs until lines come over a second stream."""

import sys

import longhaul

client = longhaul.Client(sys.argv[1], timeout=10)
asked = []
follow = client._logs.FollowLogs
client._logs.FollowLogs = lambda request, **options: (asked.append([at.pool for at in request.positions]), follow(request, **options))[1]
for pool, line in client.logs(follow=True, tail=5):
    print(line, flush=True)
    if len(asked) > 1:
        break
print(asked, pool, flush=True)
