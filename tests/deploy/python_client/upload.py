"""Server, a checkpoint's folder, a spec that it fits, one that it does not fit. It stands still in the middle of the largest file, once."""

import json
import os
import shutil
import sys

import longhaul

server, folder, spec, other = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:5])
client = longhaul.Client(server, timeout=10)
largest = max(os.listdir(folder), key=lambda name: os.path.getsize(os.path.join(folder, name)))
streams, told = [], []

class Slow:
    PrepareUpload = client._uploads.PrepareUpload

    def UploadFile(self, messages, **options):
        return self.stub.UploadFile(self.paused(messages), **options)

    def paused(self, messages):
        for number, message in enumerate(messages):
            if number == 0:
                streams.append([message.file, message.offset])
            yield message
            if number == 2 and streams[-1][0] == largest and not told:
                told.append(print("half", flush=True))
                sys.stdin.readline()

Slow.stub, client._uploads = client._uploads, Slow()
longhaul.upload.CHUNK_BYTES = 4096
found = {}

def refused(name, call):
    try:
        call()
        found[name] = "was not refused"
    except (longhaul.LonghaulError, ValueError, OSError) as error:
        found[name] = f"{type(error).__name__}: {error}"

refused("other shape", lambda: client.submit(other, begin_from=folder))
found["streams of what is refused"] = len(streams)
job = client.submit(spec, begin_from=folder)
found["job"] = [job.spec.name, job.spec.init.upload]
found["largest"] = [stream[1] for stream in streams if stream[0] == largest]
before = len(streams)
found["again"] = [client.upload(folder), len(streams) - before]
found["checkpoint name"] = client.submit({**spec, "name": "third"}, begin_from="tiny", validate_only=True).spec.init.checkpoint.partition("@")[2]
found["events"] = client.events("second")[0].sequence
refused("live", lambda: client.delete("second"))
client.cancel("second")
found["deleted"] = [client.delete("second"), client.delete("second")]
refused("ended", lambda: client.checkpoint("tiny"))
refused("nowhere", lambda: client.submit(spec, begin_from=folder + "/nowhere"))
refused("no model", lambda: client.upload(os.path.dirname(folder)))
unshaped = {name: value for name, value in spec.items() if name != "model"}
found["model of the folder"] = client.submit({**unshaped, "name": "shaped"}, begin_from=folder + "-hf").spec.model.transformer.layers
refused("no model, not sent", lambda: client.submit({**unshaped, "name": "shaped"}, begin_from=folder, validate_only=True))
shutil.copytree(folder, folder + "-changing")
os.truncate(os.path.join(folder + "-changing", largest), 5)
refused("damaged", lambda: client.submit({**spec, "name": "damaged"}, begin_from=folder + "-changing"))
os.truncate(os.path.join(folder + "-changing", largest), 6)
read = longhaul.upload.read_folder(folder + "-changing")
open(os.path.join(folder + "-changing", "manifest.json"), "a").write(" ")
refused("changed", longhaul.upload.Sending(client._uploads, tuple, read, 10, 10).run)
with open(os.path.join(folder + "-changing", "manifest.json"), "w") as manifest:
    json.dump({"fragments": [{"file": "../secret"}]}, manifest)
refused("outside", lambda: client.upload(folder + "-changing"))
print(json.dumps(found))
