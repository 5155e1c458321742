// One job of scalar (or longer) fragments through the real scheduler, coordinator, store and gRPC
// wire on localhost: a coordinator in this process, and M pools whose replicas add a constant at
// each inner step. What sync_vectors prints and what the tests of the papers' semantics compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

struct ExchangeOptions {
  int pools = 2;
  int64_t h = 6, tau = 0, steps = 15;
  int fragments = 2;
  int64_t elements = 1;  // Of each fragment.
  double alpha = 0;
  double initial = 1;
  std::vector<double> inner_delta = {
      -2};  // One for all pools, or one for each in the order of joining.
  double outer_lr = 2, outer_momentum = 0;
  v1::Codec codec = v1::FP32;        // Both ways; TOPK2 goes up only, with E3M0 down.
  bool stochastic_rounding = false;  // Both ways.
  bool error_feedback = false;       // On the uplink; the downlink always has it.
  double feedback_decay = 1;         // Wherever there is error feedback.
  bool final_round = false;
  // Contributions are coded on CUDA devices, which are emulated.
  bool on_device = false;
  // Each pool has a second rank. It owns no element, and is late at the end of the last step.
  bool idle_rank = false;
};

// Of one fragment: pool 0's live value and the outer value right after each merge (element 0).
struct FragmentHistory {
  std::vector<float> live, outer;
};

struct ExchangeResult {
  std::vector<FragmentHistory> fragments;
  std::vector<std::vector<float>> final_live;  // By pool, then fragment.
  v1::Job job;                                 // As GetJob tells it at the end.
  // Before its last evaluation, and before no other one, each pool said that it has merged the last
  // commits.
  bool said_merged = true;
};

// Blocks until the job has ended (a minute at most). DEADLINE_EXCEEDED, or the first error of any
// part.
absl::StatusOr<ExchangeResult> RunExchange(const ExchangeOptions& options);

}  // namespace longhaul
