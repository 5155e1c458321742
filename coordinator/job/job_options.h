// What the coordinator's core needs to know of a JobSpec: no models, no codecs, no bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/schedule/round_policy.h"
#include "common/schedule/schedule.h"
#include "coordinator/job/divergence.h"
#include "coordinator/job/outer_guard.h"

namespace longhaul {

struct JobOptions {
  std::string name;
  // The job starts when this many pools are ready.
  int pools_min = 1;
  // How many live pools may take part at one time.
  int pools_max = 64;
  // Only these pools may work on the job. Empty: any pool may.
  std::vector<std::string> pool_names;
  bool cuda = false;
  // Capabilities that a pool must name, for example "codec:e3m0".
  std::vector<std::string> needs;
  // By fragment.
  std::vector<FragmentSchedule> schedule;
  // Inner steps of every pool.
  int64_t steps = 0;
  bool final_round = true;
  RoundPolicy rounds = {};
  // 0 or negative: only at the end.
  int64_t checkpoint_every_cycles = 0;
  // 0 or negative: only at the end.
  int64_t evaluation_every_cycles = 1;
  // Every pool evaluates the outer parameters, each on data of its own.
  bool every_pool_evaluates = false;
  // True if the initial parameters come from a checkpoint and not from a pool: that of `from_job`
  // at `from_step`, if it is one of this coordinator's, or an upload of this name.
  bool from_checkpoint = false;
  std::string from_job = {};
  int64_t from_step = 0;
  std::string from_upload = {};
  GuardOptions guard = {};
  OuterGuardOptions outer_guard = {};
  // The most bytes that its state takes while it has its store open.
  int64_t memory = 0;
};

}  // namespace longhaul
