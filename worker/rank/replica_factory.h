// Makes the replica that trains a job's spec on this rank.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "longhaul/v1/job.pb.h"
#include "worker/data/data_warning.h"
#include "worker/plan/rank_site.h"
#include "worker/replica/replica.h"

namespace longhaul {

struct ReplicaOptions {
  // With every default filled in, as the coordinator sends it.
  v1::JobSpec spec;
  // The pool's ordinal in the job.
  int ordinal = 0;
  RankSite site;
  // The pool's name. A pool may have data of its own.
  std::string pool;
  // Relative data paths begin here.
  std::string data_dir;
  // The folder for tokens that are made from text.
  std::string work_dir;
  // Of sources with the tokenizer `model`. Empty: the folder of model.hf.
  std::string tokenizer_folder = {};
  // See TokenWork.
  std::function<void(const std::string&)> on_wait;
  // Receives what is probably a mistake, in words.
  std::function<void(const DataWarning&)> on_warning = nullptr;
  // See OffloadPlan::profile_path. Empty: none.
  std::string update_rates_path;
};

// CheckCapabilities must have accepted the spec. Blocks: it opens data, and may make tokens from
// text. Errors: those of TorchReplica::Create and SyntheticReplica::Create.
absl::StatusOr<std::unique_ptr<Replica>> MakeReplica(const ReplicaOptions& options);

}  // namespace longhaul
