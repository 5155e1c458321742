"""Drives a coordinator with grpcio and grpcio-reflection alone: the server tells its own contract.

    python reflection.py SERVER JOB
"""

import sys

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


class Service:
    """A service of the server as an object: every call takes and gives a dictionary, a streaming one gives several."""

    def __init__(self, channel, name):
        self._channel = channel
        self._service = DescriptorPool(ProtoReflectionDescriptorDatabase(channel)).FindServiceByName(name)

    def __getattr__(self, name):
        method = self._service.methods_by_name[name]
        request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        make = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        call = make(f"/{self._service.full_name}/{name}", request_serializer=request.SerializeToString, response_deserializer=response.FromString)

        def as_dict(message):
            return json_format.MessageToDict(message, preserving_proto_field_name=True)

        def invoke(timeout=30, **fields):
            answer = call(json_format.ParseDict(fields, request()), timeout=timeout)
            return (as_dict(message) for message in answer) if method.server_streaming else as_dict(answer)

        return invoke


def main():
    server, name = sys.argv[1], sys.argv[2]
    with grpc.insecure_channel(server) as channel:
        jobs, pools = Service(channel, "longhaul.v1.JobService"), Service(channel, "longhaul.v1.PoolService")
        model = {"synthetic": {"units": 2, "elements": 1000, "inner_delta": [-1]}}
        job = jobs.SubmitJob(spec={"name": name, "model": model, "train": {"steps": 10}, "sync": {"h": 2}})["job"]
        print("submitted", job["spec"]["name"], job["state"], "waiting for", job.get("waiting_for", "nothing"))
        print("pools", [pool["name"] for pool in pools.ListPools().get("pools", [])])
        print("first update", next(iter(jobs.WatchJob(job=name)))["job"]["state"])
        print("cancelled", jobs.CancelJob(job=name, reason="only an example")["job"]["state"])
        print("listed", [listed["spec"]["name"] for listed in jobs.ListJobs(page_size=10)["jobs"]])


if __name__ == "__main__":
    main()
