"""Makes the dashboards beside it from the lists below: one for who runs the service, one for who trains.

    python3 deploy/grafana/make_dashboards.py          writes deploy/grafana/dashboards/*.json
"""

import json
import pathlib

FOLDER = pathlib.Path(__file__).parent / "dashboards"
WIDTH, HEIGHT = 24, 8  # Of Grafana's grid: a row; a panel's height.
C, W = "longhaul_coordinator", "longhaul_worker"
JOB = '{job_name=~"$job_name"}'
WAITED = '{job_name=~"$job_name",activity="exposed_wait"}'


def panel(title, unit, *queries, kind="timeseries", width=8, says="", height=HEIGHT):
    """queries: (expression, legend)."""
    return {"title": title, "unit": unit, "queries": queries, "kind": kind, "width": width, "says": says, "height": height}


def stat(title, unit, expression, says=""):
    return panel(title, unit, (expression, ""), kind="stat", width=4, says=says, height=4)


OPERATOR = [
    stat("Coordinators up", "none", 'sum(up{job="longhaul-coordinator"})'),
    stat("Ready", "bool_yes_no", f"min({C}_ready)", "No: decisions wait for disk space"),
    stat("Pools live", "none", f"sum({C}_live_pools)"),
    stat("Pools participating", "none", f'sum({C}_pools{{state="participating"}})'),
    stat("Jobs running", "none", f'sum({C}_jobs{{state="RUNNING"}})'),
    stat("Jobs quarantined", "none", f'sum({C}_jobs{{state="QUARANTINED"}})'),
    panel("Pools by state", "none", (f"sum by (state) ({C}_pools)", "{{state}}")),
    panel("Pools of each job", "none", (f"{C}_job_pools{JOB}", "{{job_name}} {{state}}"), says="Alive and not participating: look at its log"),
    panel("Jobs wait", "s", (f"{C}_job_waiting_seconds{JOB}", "{{job_name}}")),
    panel("Bytes between sites", "Bps", (f"sum by (job_name, direction) (rate({C}_wire_bytes_total{JOB}[$__rate_interval]))", "{{job_name}} {{direction}}"),
          says="Including chunk headers and framing"),
    panel("Payload by codec", "Bps", (f"sum by (codec, direction) (rate({C}_wire_payload_bytes_total{JOB}[$__rate_interval]))", "{{codec}} {{direction}}")),
    panel("Streams refused", "cps", (f"sum by (reason) (rate({C}_refused_streams_total[$__rate_interval]))", "{{reason}}")),
    panel("Damaged pulls", "cps", (f"sum by (instance) (rate({W}_rank_damaged_pulls_total[$__rate_interval]))", "{{instance}}"),
          says="Bytes that changed on the way to a pool; those from a pool are streams refused with HASH_MISMATCH"),
    panel("Stored uploads", "bytes", (f"{C}_upload_stored_bytes", "stored {{instance}}"), (f"{C}_upload_limit_bytes", "limit {{instance}}"), says="submit --from DIR"),
    panel("Uploads in progress", "Bps", (f"sum by (instance) (rate({C}_upload_received_bytes_total[$__rate_interval]))", "{{instance}}")),
    panel("Failed upload calls", "none", (f"sum by (reason) (increase({C}_refused_uploads_total[1h]))", "{{reason}}"), says="In the last hour"),
    panel("Commit latency", "s",
          (f"histogram_quantile(0.5, sum by (le) (rate({C}_commit_seconds_bucket[$__rate_interval])))", "median"),
          (f"histogram_quantile(0.99, sum by (le) (rate({C}_commit_seconds_bucket[$__rate_interval])))", "99 %")),
    panel("Outer step", "s", (f"histogram_quantile(0.9, sum by (le) (rate({C}_apply_seconds_bucket[$__rate_interval])))", "90 %")),
    panel("Heartbeats and streams", "none", (f"sum(rate({C}_heartbeats_total[$__rate_interval]))", "heartbeats per second"), (f"sum({C}_bulk_streams)", "bulk streams")),
    panel("Processor", "none", ("sum by (job, instance) (rate(process_cpu_seconds_total{job=~\"longhaul-.*\"}[$__rate_interval]))", "{{job}} {{instance}}"),
          (f"sum by (instance) (rate({W}_rank_cpu_seconds_total[$__rate_interval]))", "ranks of {{instance}}"), says="Cores in use"),
    panel("Memory", "bytes", ("process_resident_memory_bytes{job=~\"longhaul-.*\"}", "{{job}} {{instance}}"),
          (f"sum by (instance) ({W}_rank_resident_memory_bytes)", "ranks of {{instance}}")),
    panel("Open files", "none", ("process_open_fds{job=~\"longhaul-.*\"} / process_max_fds", "{{job}} {{instance}}"), says="Share of the limit"),
    panel("Ranks per worker", "none", (f"{W}_ranks", "{{instance}}")),
    panel("Ended ranks", "none", (f"sum by (instance, reason) (increase({W}_rank_exits_total[1h]))", "{{instance}} {{reason}}"), says="In the last hour"),
    panel("Time since last coordinator response", "s", (f"time() - {W}_last_answer_timestamp_seconds", "{{instance}}")),
    panel("Disk", "bytes", (f"{C}_data_free_bytes", "free {{instance}}"), (f"{C}_data_size_bytes", "size {{instance}}"), says="The file system of --data-dir"),
    panel("Certificates", "s", (f"{C}_certificate_expiry_timestamp_seconds - time()", "{{job}} {{instance}}"),
          (f"{W}_certificate_expiry_timestamp_seconds - time()", "{{job}} {{instance}}"), says="Time until they expire"),
    panel("Versions", "none", (f"sum by (version) ({C}_build_info)", "coordinator {{version}}"), (f"sum by (version) ({W}_build_info)", "worker {{version}}")),
]

RESEARCHER = [
    stat("Progress", "percentunit", f"min({C}_job_inner_step{JOB} / {C}_job_steps{JOB})"),
    stat("Time left", "s", f"max(({C}_job_steps{JOB} - {C}_job_inner_step{JOB}) / deriv({C}_job_inner_step{JOB}[$__rate_interval]))"),
    stat("Eval loss", "none", f"min({C}_eval_loss_nats{JOB})", "Nats per token, of the outer parameters"),
    stat("Tokens", "short", f"sum({C}_job_tokens_total{JOB})"),
    stat("Contributing tokens", "short", f"sum({C}_job_contributed_tokens_total{JOB})", "Tokens whose training is part of a committed round"),
    stat("Computing", "percentunit", f"avg({C}_job_utilization_ratio{JOB})"),
    panel("Findings", "none", (f"{C}_job_findings{JOB}", "{{job_name}}: {{code}} ({{level}})"), width=12, says="What is wrong with the training, as `longhaul doctor JOB` says; nothing: nothing was found"),
    panel("Computing, and its forecast", "percentunit", (f'{C}_job_forecast{{job_name=~"$job_name",term="utilization"}}', "{{job_name}}: forecast"),
          (f'{C}_job_forecast_measured{{job_name=~"$job_name",term="utilization"}}', "{{job_name}}: measured"), width=12,
          says="The forecast was made when the job began to train; `longhaul get JOB` says which term was wrong"),
    panel("Eval loss of the outer parameters", "none", (f"{C}_eval_loss_nats{JOB}", "{{job_name}}"), width=12, says="Nats per token, on held-out data"),
    panel("Metrics of the outer parameters", "none", (f'{C}_eval_metric{{job_name=~"$job_name",metric!~"loss|test_examples"}}', "{{metric}}: {{over}}"), width=12,
          says="Perplexity; accuracy and so on of graphs: over all pools' nodes (examples), of the worst pool, and the mean of pools"),
    panel("Train loss", "none", (f"{C}_pool_train_loss_nats{JOB}", "{{pool}}"), width=12, says="Nats per token, of each pool"),
    panel("Tokens per second", "none", (f"sum by (pool) (rate({C}_pool_tokens_total{JOB}[$__rate_interval]))", "{{pool}}")),
    panel("Inner steps", "none", (f"{C}_pool_inner_step{JOB}", "{{pool}}")),
    panel("Rounds", "none", (f"sum by (kind) (rate({C}_rounds_total{JOB}[$__rate_interval])) * 60", "{{kind}} a minute")),
    panel("Where the time goes", "percentunit", (
        f"sum by (activity) (rate({C}_pool_training_seconds_total{JOB}[$__rate_interval])) / "
        f"ignoring(activity) group_left sum(rate({C}_pool_training_seconds_total{JOB}[$__rate_interval]))", "{{activity}}"),
          says="exposed_wait: training waited for a commit"),
    panel("Exposed wait", "percentunit", (
        f"sum by (pool) (rate({C}_pool_training_seconds_total{WAITED}[$__rate_interval])) / "
        f"sum by (pool) (rate({C}_pool_training_seconds_total{JOB}[$__rate_interval]))", "{{pool}}")),
    panel("Bytes by fragment", "Bps", (f"sum by (fragment, direction) (rate({C}_wire_payload_bytes_total{JOB}[$__rate_interval]))", "fragment {{fragment}} {{direction}}")),
    panel("Outer gradient norm", "none", (f"{C}_outer_gradient_norm{JOB}", "fragment {{fragment}}")),
    panel("Agreement of the pools", "none", (f"{C}_outer_gradient_cosine_ratio{JOB}", "fragment {{fragment}}"),
          says="Mean pairwise cosine of their outer gradients; near 0 they are unrelated"),
    panel("Left out", "none", (f"{C}_pool_left_out_rounds_total{JOB}", "{{pool}}"), says="Contributions that guard.outer left out; nothing without it"),
    panel("Outer parameter norm", "none", (f"{C}_outer_parameter_norm{JOB}", "fragment {{fragment}}"), says="Growth is an early sign of divergence"),
    panel("Codec error, up", "none", (f"{C}_pool_uplink_nmse_ratio{JOB}", "{{pool}}"), says="NMSE of the newest contribution"),
    panel("Codec error, down", "none", (f"{C}_downlink_nmse_ratio{JOB}", "fragment {{fragment}}"), says="NMSE of the newest downlink"),
    panel("Error feedback", "none", (f"{C}_pool_error_feedback_norm{JOB}", "{{pool}}"), says="L2 norm of the uplink codec's error feedback; 0 without it"),
    panel("Bytes inside pools", "Bps", (f"sum by (pool, use, level) (rate({C}_pool_in_pool_received_bytes_total{JOB}[$__rate_interval]))", "{{pool}} {{use}} {{level}}"),
          says="What rank 0 received; empty for pools of one rank"),
    panel("Error inside pools", "none", (f"{C}_pool_in_pool_nmse_ratio{JOB}", "{{pool}} {{what}}"), says="For partitions that quantize"),
]


def target(index, query):
    expression, legend = query
    return {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend or "__auto", "datasource": {"type": "prometheus", "uid": "$datasource"}}


def lay_out(panels):
    x = y = row = 0
    for number, p in enumerate(panels, 1):
        if x + p["width"] > WIDTH:
            x, y, row = 0, y + row, 0
        yield {"id": number, "title": p["title"], "description": p["says"], "type": p["kind"],
               "gridPos": {"x": x, "y": y, "w": p["width"], "h": p["height"]},
               "datasource": {"type": "prometheus", "uid": "$datasource"},
               "fieldConfig": {"defaults": {"unit": p["unit"]}, "overrides": []},
               "targets": [target(i, q) for i, q in enumerate(p["queries"])]}
        x, row = x + p["width"], max(row, p["height"])


def dashboard(uid, title, panels):
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
        {"name": "job_name", "type": "query", "label": "job", "datasource": {"type": "prometheus", "uid": "$datasource"},
         "query": {"query": f"label_values({C}_job_steps, job_name)", "refId": "jobs"}, "includeAll": True, "allValue": ".*", "refresh": 2},
    ]
    return {"uid": uid, "title": title, "tags": ["longhaul"], "schemaVersion": 38, "version": 1, "editable": True, "refresh": "15s",
            "time": {"from": "now-3h", "to": "now"}, "timezone": "browser", "templating": {"list": variables}, "panels": list(lay_out(panels))}


def make():
    return {"operator.json": dashboard("longhaul-operator", "Longhaul: the service", OPERATOR),
            "researcher.json": dashboard("longhaul-researcher", "Longhaul: training", RESEARCHER)}


def text(board):
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, board in make().items():
        (FOLDER / name).write_text(text(board), encoding="utf-8")
