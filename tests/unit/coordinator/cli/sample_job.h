// A job as a coordinator reports it in the middle of its life.
#pragma once

#include "google/protobuf/text_format.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

inline v1::Job SampleJob(v1::JobState state = v1::RUNNING) {
  v1::Job job;
  google::protobuf::TextFormat::ParseFromString(R"(
    id: "j-1"
    spec { name: "quickstart" train { steps: 6000 batch: 4 seed: 18446744073709551615 }
           sync { h: 30 up { codec: E3M0 } } }
    created_at { seconds: 1700000000 } started_at { seconds: 1700000010 nanos: 500000000 }
    parameters: 9007199254740993 inner_step: 1200 tokens: 1228800
    fragments { name: "embeddings" elements: 24672 rounds_committed: 40 digest: "ab" payload_bytes_up: 12529 }
    fragments { fragment: 1 name: "layers 0,2" elements: 221568 rounds_committed: 40 }
    eval_loss { first: 4.5 last: 2.4 best: 2.25 last_step: 1170 evaluations: 2 }
    wire_bytes { up_payload: 1000 up_total: 1100 down_payload: 2000 down_total: 2200 }
    pools { pool: "east" ranks: 1 inner_step: 1200 tokens: 614400 train_loss: 2.25 tokens_per_second: 1500 live: true }
    pools { pool: "west" ranks: 2 inner_step: 1201 tokens: 614400 train_loss: 2.75 tokens_per_second: 2500 live: true }
    exposed_wait_seconds: 1.5 compute_seconds: 100 utilization: 0.98 data_parallel_bytes: 3300000
    warnings: "momentum 0.9 needs rounds")",
                                                &job);
  job.set_state(state);
  return job;
}

}  // namespace longhaul::cli
