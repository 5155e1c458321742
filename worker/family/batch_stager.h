// Brings examples to the device that computes.
#pragma once

#include "absl/status/statusor.h"
#include "worker/data/batch.h"
#include "worker/model/staged_batch.h"

namespace longhaul {

// Called from one thread at a time; evaluation alongside training has a stager of its own. May own
// pinned memory and streams.
class BatchStager {
 public:
  virtual ~BatchStager() = default;
  // Micro-batch `micro` of `of` of a rank's share, which outlives the result. It is ready for what
  // is enqueued on the caller's stream after the call, and valid for what is enqueued there before
  // the next call. Errors: those of torch_status.h.
  virtual absl::StatusOr<StagedBatch> Stage(const ExampleBatch& share, int micro, int of) = 0;
};

}  // namespace longhaul
