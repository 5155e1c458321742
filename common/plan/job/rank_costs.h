// What a decoder costs a rank: arithmetic, memory and the time of an inner step. Pure functions.
#pragma once

#include "common/config/job_spec.h"
#include "longhaul/v1/plan.pb.h"

namespace longhaul::plan {

// Multiplications and additions of forward and backward for one token: 6 for each element of a
// matrix that tokens are multiplied with (also a tied output projection; not the embedding), and 12
// for each query-key pair and element of a head, over half of the context since attention is
// causal. With RECOMPUTE forward of the blocks counts twice.
double OperationsPerToken(const ResolvedJob& job);

// `site` is complete (CompleteSites).
struct StepCosts {
  double compute = 0, exchange = 0, update = 0;
  // The exchange runs beside compute; what is longer counts.
  double step = 0;
  // Of one evaluation, while training stands still.
  double evaluation = 0;
};
StepCosts StepCostsOf(const ResolvedJob& job, const v1::PoolSite& site);

struct PoolMemory {
  // Of one rank's device, or of its process on a CPU.
  v1::RankMemory device;
  // Of a node, for all its ranks. With device CPU the ranks' processes.
  v1::RankMemory host;
};
PoolMemory MemoryOfPool(const ResolvedJob& job, const v1::PoolSite& site);

// Elements per second.
struct CodingRates {
  double code = 0, decode = 0, copy = 0;
};
// Of a whole pool: as its workers measured it, or nominal.
CodingRates CodingOf(const ResolvedJob& job, const v1::PoolSite& site);

}  // namespace longhaul::plan
