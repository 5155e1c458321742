"""Makes the JSON Schemas of `longhaul COMMAND -o json` from the contract: one file for each kind of answer, each of the whole envelope.
What another file describes is there by reference: jobs and top refer to job and pools of the same folder.

    python make_schemas.py [FOLDER]

It needs grpcio-tools (tests/deploy/python_requirements.txt). The schemas change only with schema_version, but for keys that are added.
"""

import json
import pathlib
import sys
import tempfile

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FieldDescriptor as F
from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parents[1] / "proto"
OF_LM = ("eval", "sample", "graph_predict")  # What `longhaul` hands to longhaul-lm.
SCHEMA_VERSION = 1  # Of the envelope; coordinator/cli/outcome.cc.

NUMBERS = {F.TYPE_DOUBLE, F.TYPE_FLOAT}
INTEGERS = {F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64, F.TYPE_FIXED32, F.TYPE_FIXED64, F.TYPE_SINT32, F.TYPE_SINT64}
TEXT = {"type": "string"}
DATE = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
BYTES_BOTH_WAYS = {
    "type": "object", "required": ["up", "down"],
    "properties": {way: {"type": "object", "required": ["payload", "total"], "properties": {"payload": {"type": "integer"}, "total": {"type": "integer"}}}
                   for way in ("up", "down")}}


def load():
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "set")
        well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
        if protoc.main(["protoc", f"-I{PROTOS}", f"-I{well_known}", "--include_imports", f"--descriptor_set_out={output}",
                        "longhaul/v1/job.proto", "longhaul/v1/plan.proto", "longhaul/v1/pool.proto"]) != 0:
            raise RuntimeError("the contract does not compile")
        files = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


def message(kind, all_fields=True):
    """As coordinator/cli/message_json.h writes it: every field (all_fields), null where nothing is set; else those that are set."""
    if kind.full_name == "google.protobuf.Duration":
        return {"type": "number"}
    if kind.full_name == "google.protobuf.Timestamp":
        return {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
    properties = {field.name: field_schema(field, all_fields) for field in kind.fields}
    schema = {"type": "object", "properties": properties}
    if all_fields and properties:
        schema["required"] = list(properties)
    return schema


def single(field, all_fields):
    if field.type == F.TYPE_MESSAGE:
        return message(field.message_type, all_fields)
    if field.type == F.TYPE_ENUM:  # A newer coordinator may have values that this program knows by number only.
        return {"anyOf": [{"enum": [value.name for value in field.enum_type.values]}, {"type": "integer"}]}
    if field.type in NUMBERS:
        return {"type": "number"}
    if field.type in INTEGERS:
        return {"type": "integer"}
    return {"type": "boolean"} if field.type == F.TYPE_BOOL else TEXT


def field_schema(field, all_fields):
    schema = single(field, all_fields)
    if field.is_repeated:
        return {"type": "array", "items": schema}
    return {"anyOf": [schema, {"type": "null"}]} if field.has_presence and all_fields else schema


def job(pool):
    """As coordinator/cli/job_view.cc changes it."""
    schema = message(pool.FindMessageTypeByName("longhaul.v1.Job"))
    schema["properties"]["name"] = TEXT
    schema["properties"]["steps"] = {"type": "integer"}
    schema["properties"]["spec"] = message(pool.FindMessageTypeByName("longhaul.v1.JobSpec"), all_fields=False)
    schema["properties"]["eval_loss"] = message(pool.FindMessageTypeByName("longhaul.v1.EvalLoss"))
    schema["properties"]["wire_bytes"] = BYTES_BOTH_WAYS
    schema["required"] = [*schema["required"], "name", "steps"]
    return schema


def plan(pool):
    """As coordinator/cli/plan_command.cc extends it."""
    schema = message(pool.FindMessageTypeByName("longhaul.v1.JobForecast"))
    schema["properties"]["at_other_bandwidths"] = rows(record(mbps={"type": "number"}, utilization={
        "type": "object", "additionalProperties": {"type": "number"}}))
    schema["required"] = [*schema["required"], "at_other_bandwidths"]
    return schema


def record(**properties):
    return {"type": "object", "required": list(properties), "properties": properties}


def rows(schema):
    return {"type": "array", "items": schema}


def part_of(name, place):
    """What another schema of this folder has below `data`."""
    return {"$ref": f"{name}.schema.json#/properties/data{place}"}


def envelope(data, name):
    error = record(code=TEXT, message=TEXT, hint=TEXT, fields=rows(record(field=TEXT, description=TEXT)))
    if name in OF_LM:  # It reads no spec.
        error["required"].remove("fields")
    error["properties"] |= {"reason": TEXT, "retry_after_seconds": {"type": "number"}}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | record(
        schema_version={"const": SCHEMA_VERSION}, status={"enum": ["ok", "error"]})
    schema["properties"] |= {"data": data, "error": error}
    schema["if"] = {"properties": {"status": {"const": "ok"}}}
    schema["then"] = {"required": ["data"], "properties": {"error": False}}
    schema["else"] = {"required": ["error"]}
    return schema


def schemas():
    pool = load()
    one_job, one_pool = job(pool), message(pool.FindMessageTypeByName("longhaul.v1.Pool"))
    boolean = {"type": "boolean"}
    explained = record(name=TEXT, type=TEXT, repeated=boolean, one_of={"anyOf": [TEXT, {"type": "null"}]}, description=TEXT)
    event = message(pool.FindMessageTypeByName("longhaul.v1.JobEvent"))
    real, count, number_or_null = {"type": "number"}, {"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    file = record(path=TEXT, format=TEXT, compression=TEXT, bytes=count, tokens=count, documents=number_or_null, largest_token=number_or_null,
                  sample=record(tokens=rows(count), text=TEXT), not_utf8_at=number_or_null,
                  control_tokens={"anyOf": [record(documents=count, times=count), {"type": "null"}]},
                  chat={"anyOf": [record(target_tokens=count, without_targets=count, longest=count), {"type": "null"}]}, null_rows=count,
                  warnings=rows(TEXT), problems=rows(TEXT),
                  problem_count=count)
    by_level = record(pair=real, node=real, pool=real)
    by_use = record(forward=by_level, backward=by_level, gradient=by_level, refresh=by_level)
    check = record(check=TEXT, verdict={"enum": ["ok", "warning", "problem"]}, found=TEXT, advice=TEXT)
    run = record(pools=count, completed=boolean, why=TEXT, steps=count, commits=count, skipped_rounds=count, pools_lost=count, rank_starts=count,
                 coordinator_restarts=count, events=count, messages=count, coordinator_memory_bytes=count, process_peak_bytes=count,
                 **{name: real for name in ("seconds", "commits_per_hour", "contributed", "utilization", "utilization_least", "utilization_most",
                                            "forecast_utilization", "forecast_seconds", "tokens", "committed_tokens", "goodput_tokens_per_second",
                                            "goodput", "bytes_up", "bytes_down", "simulated_in_seconds")})
    predicted = dict(job=TEXT, step=count, folder=TEXT, split={"enum": ["all", "train", "valid", "test"]}, nodes=count)
    real_or_null = {"anyOf": [real, {"type": "null"}]}
    level = {"enum": ["core", "l2", "l3", "memory"]}
    swept = record(kernel=TEXT, element=TEXT, bound=level, working_set_bytes=real, elements_per_second=real, gb_per_second=real,
                   shares=record(core=real, l2=real, l3=real, memory=real), speedup_clock_x2=real, speedup_memory_x2=real,
                   clock_stops_paying_x={"anyOf": [real, {"type": "null"}]}, median_error=real,
                   sizes=rows(record(working_set_bytes=real, seconds_per_element=real, predicted=real, bound=level)))
    return {
        "job": one_job,                 # submit, get, watch, wait, cancel
        "jobs": rows(part_of("job", "")),          # list
        "pools": rows(one_pool),
        "checkpoints": rows(message(pool.FindMessageTypeByName("longhaul.v1.CheckpointManifest"))),
        "top": record(jobs=rows(part_of("job", "")), pools=part_of("pools", "")),
        "log_line": record(pool=TEXT, node={"type": "integer"}, line=TEXT),  # logs -o jsonl
        "checkpoint": record(job=TEXT, step=count, path=TEXT, written=boolean),
        "download": record(job=TEXT, step=count, path=TEXT, bytes=count, received_bytes=count),
        "delete": record(job=TEXT, job_id=TEXT, deleted=boolean),
        "events": rows(event),
        "event": event,                 # events --follow -o jsonl
        "export": record(job=TEXT, step=count, folder=TEXT, dtype=TEXT, parameters=count, bytes=count, files=count, carried=rows(TEXT)),
        "compare": record(jobs=rows(record(name=TEXT, id=TEXT, state=TEXT, tokens=count, curve=rows(record(tokens=real, loss=real)))),
                          differences={"type": "object", "additionalProperties": rows(TEXT)}, loss={"enum": ["eval/loss", "train/loss"]},
                          equal_tokens=rows(record(tokens=real, losses=rows(real)))),
        "data_check": record(files=rows(file), tokens=count, documents=number_or_null, problem_count=count),
        "graph_predict": {"anyOf": [
            record(**predicted, labelled=count, accuracy=real_or_null, macro_f1=real_or_null, files=rows(TEXT)),
            record(**predicted, pairs=count, linked=count, files=rows(TEXT))]},  # Of a model of links.
        "graph": record(path=TEXT, nodes=count, edges=count, columns=count, classes=count, direction={"enum": ["reverse-edges", "directed"]},
                        duplicates_kept=boolean, pairs_read=count, merged_duplicates=count, dropped_loops=count, nodes_without_in_edges=count,
                        labelled=count, train=count, valid=count, test=count, train_pairs=count, valid_pairs=count, test_pairs=count,
                        held_out_edges=count, ids={"enum": ["none", "numbers", "texts"]},
                        class_names=rows(TEXT), feature_names=rows(TEXT), schema_digest=TEXT, link_schema_digest=TEXT, content_digest=TEXT,
                        bytes=count,
                        verified=boolean, warnings=rows(TEXT)),  # graph import, graph info
        "plan": plan(pool),
        "simulate_partition": record(received=by_use, scales=by_use, state_bytes_per_rank=record(
            weights=real, secondary=real, gradients=real, optimizer=real, error_feedback=real)),
        "simulate_utilization": {"anyOf": [
            record(utilization=real), record(targets=rows(record(utilization=real, gbit_per_second={"anyOf": [real, {"type": "null"}]})))]},
        "simulate_offload": record(strides=rows(record(stride=count, seconds=real)), best_stride=count),
        "simulate_job": record(**run["properties"], growth=rows(run)),
        "simulate_gather_requests": record(dim=count, aligned=boolean, requests=real),
        "simulate_cores": {"anyOf": [
            rows(record(workload=TEXT, core_ghz=real, l1_ghz=real, l2_ghz=real, l3_ghz=real, seconds=real, speedup=real,
                        limit={"enum": ["core", "l1", "l2", "l3", "memory"]},
                        core_stops_paying_ghz={"anyOf": [real, {"type": "null"}]},
                        core_stopped_by={"enum": ["l1", "l2", "l3", "memory", None]})),
            record(threads=count, memory_gb_per_second=real, cache_bytes=rows(real), kernels=rows(swept))]},  # --host
        "certs": record(ca=TEXT, certificate=TEXT, key=TEXT, valid_until=DATE),
        "certs_kit": record(kit=TEXT, certificate=TEXT, key=TEXT, valid_until=DATE),
        "certs_revoke": record(crl=TEXT, certificate=TEXT, key=TEXT),
        "tokens_add": record(user=TEXT, role=TEXT, tokens=TEXT, token_file=TEXT),
        "eval": record(loss=real, perplexity=real, bits_per_byte={"anyOf": [real, {"type": "null"}]}, tokens=count, sequences=count,
                       separate_documents=boolean),
        "sample": record(tokens=rows(count), tokens_per_second=real, text=TEXT),
        "spec_explain": record(path=TEXT, type=TEXT, description=TEXT, fields=rows(explained),
                               values=rows(record(name=TEXT, description=TEXT))),
        "spec_init": record(**{"from": TEXT, "text": TEXT}),
        "doctor": record(checks=rows(check)),
        "contexts": rows(record(name=TEXT, server=TEXT, tls=boolean, current=boolean)),
        "version": record(version=TEXT, api=TEXT),
    }


def texts():
    return {f"{name}.schema.json": json.dumps(envelope(data, name), indent=1) + "\n" for name, data in schemas().items()}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
