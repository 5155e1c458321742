// Brings the tokenizer that the coordinator keeps with a job to this machine, once for all its
// ranks and for later jobs.
//
//   <work_dir>/tokenizers/<digest>/       whole and verified
//   <work_dir>/tokenizers/<digest>.tmp/   on its way
//   <work_dir>/tokenizers/<digest>.lock   held by the process that brings it
//
// One that no rank has used for a week is removed when another one is brought.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls.h"

namespace longhaul {

struct KeptTokenizerOptions {
  // host:port
  std::string coordinator;
  // Null: plaintext.
  std::shared_ptr<const Tls> tls;
  std::string job, pool, incarnation;
  // DataSpec.model_tokenizer.
  std::string digest;
  std::string work_dir;
  // Called with what it waits for, and at the end with "". May be null.
  std::function<void(const std::string&)> on_wait;
  // The coordinator may be away for so long.
  absl::Duration patience = absl::Minutes(2);
};

// Returns the folder. Blocks. What a later attempt may find otherwise: UNAVAILABLE,
// DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED: the coordinator, or the process that brings it, does not
// answer in time. NOT_FOUND, FAILED_PRECONDITION: the coordinator does not have it. DATA_LOSS: what
// it sent is not the tokenizer of that digest. INTERNAL: the folder cannot be written.
absl::StatusOr<std::string> BringTokenizer(const KeptTokenizerOptions& options);

}  // namespace longhaul
