"""Between a pool and its coordinator: changes what the pool contributes, from a version on. Runs where grpcio-tools and xxhash are installed.

    wild_proxy.py COORDINATOR FROM_VERSION large|opposed     prints the port at which it listens on 127.0.0.1

large: 1,024 times as large, with a codec that has base exponents. opposed: of the opposite sign, with fp32.
"""

import pathlib
import sys
import tempfile
import time
from concurrent import futures

import grpc
import grpc_tools
import xxhash
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

PROTOS = pathlib.Path(__file__).resolve().parents[3] / "proto"
EXPONENT = 10


def message_class(file, name):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "set")
        builtin = pathlib.Path(grpc_tools.__file__).parent / "_proto"
        if protoc.main(["protoc", f"-I{PROTOS}", f"-I{builtin}", "--include_imports", f"--descriptor_set_out={out}", file]) != 0:
            sys.exit("the contract does not compile")
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for each in found.file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


PUSH = message_class("longhaul/v1/sync.proto", "longhaul.v1.PushMessage")


def large(message):
    for segment in message.segments:
        segment.base_exponent += EXPONENT


def opposed(message):
    payload = bytearray(message.payload)
    payload[3::4] = bytes(byte ^ 0x80 for byte in payload[3::4])
    message.payload = bytes(payload)
    message.payload_hash = xxhash.xxh3_64_intdigest(message.payload)


def changed(requests, version, change):
    begun = False
    for request in requests:
        message = PUSH.FromString(request)
        begun = begun or message.HasField("header") and message.header.version >= version
        if begun and message.segments:
            change(message)
        yield message.SerializeToString() if begun else request


class Passing(grpc.GenericRpcHandler):
    def __init__(self, coordinator, version, change):
        self._channel = grpc.insecure_channel(coordinator, (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)))
        self._version, self._change = version, change

    def service(self, details):
        def passed(requests, context):
            if details.method.endswith("/PushFragment"):
                requests = changed(requests, self._version, self._change)
            left = context.time_remaining()
            # Without a deadline it is infinite.
            left = left if left is not None and left < 1e6 else None
            call = self._channel.stream_stream(details.method)(requests, timeout=left, metadata=details.invocation_metadata)
            context.add_callback(call.cancel)
            try:
                yield from call
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())
                context.abort(error.code(), error.details())

        return grpc.stream_stream_rpc_method_handler(passed)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64), (Passing(sys.argv[1], int(sys.argv[2]), {"large": large, "opposed": opposed}[sys.argv[3]]),),
                         options=(("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main()
