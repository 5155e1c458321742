"""How reports show themselves; without a coordinator."""

import copy
import json
import pickle

import longhaul
from google.protobuf import json_format
from longhaul import Job, JobEvent, JobState, Pool
from longhaul.v1 import event_pb2, job_pb2, pool_pb2

message = job_pb2.Job(id="i", inner_step=30, state=job_pb2.RUNNING, spec=job_pb2.JobSpec(name="tiny", train=job_pb2.TrainSpec(steps=60)))
message.eval_loss.last = 2.5
job = Job(message)
failed = job_pb2.Job(spec=message.spec, state=job_pb2.FAILED, error=job_pb2.JobError(code="NOT_FOUND", message="no data"))
found = {"shown": [str(job), str(job.state), f"{job.state:10}"], "failed": repr(Job(failed)),
         "like ints": [job.state == 3, job.state == job_pb2.RUNNING, job.state in (JobState.RUNNING,), job_pb2.JobState.Name(job.state)]}
newer = Job(job_pb2.Job(state=77)).state
found["newer"] = [str(newer), int(newer)]
small = Job(job_pb2.Job(id="i", spec=message.spec))
found["copies"] = [copy.deepcopy(job) == job, pickle.loads(pickle.dumps(job)) == job, job == message, json_format.MessageToDict(small)]
try:
    job.id = "j"
except AttributeError as error:
    found["changed"] = str(error)
found["states"] = {state.name: state.value for state in JobState}
found["of the contract"] = dict(job_pb2.JobState.items())
found["event"] = repr(JobEvent(event_pb2.JobEvent(kind=event_pb2.POOL_LOST, severity=event_pb2.WARNING, pool="site-a", message="was lost")))
found["pool"] = repr(Pool(pool_pb2.Pool(name="site-a", state=pool_pb2.IDLE, ranks=2)))
found["hint"] = str(longhaul.LonghaulError("NOT_FOUND", "no such job", hint="see the list"))
print(json.dumps(found))
