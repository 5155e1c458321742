"""Specs with unknown fields; without a coordinator."""

import json

import longhaul

found = []
for spec in ({"sync": {"hh": 3}}, {"nmae": "a"}, {"sync": {"up": {"codec": "int5"}}}, {"sync": {"h": "x"}}, {"data": {"mixture": {"sources": [{"tokns": {}}]}}}):
    try:
        longhaul.Client("localhost:1").submit(spec)
    except longhaul.LonghaulError as error:
        found.append([type(error).__name__, error.code, str(error)])
print(json.dumps(found))
