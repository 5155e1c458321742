// The curves of a pool's jobs, as files at the pool's site (common/track).
// <folder>/JOB-ID/pool-NAME has its training and the evaluations of its own parameters.
// <folder>/JOB-ID/outer has those evaluations of the outer parameters that this pool made.
#pragma once

#include <memory>
#include <string>

#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "common/rpc/executor.h"
#include "common/track/tracker.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul {

// For one thread. Only the destructor blocks: it writes what waits.
class PoolTracks {
 public:
  // `folder` exists. Empty: nothing is written. `fs` outlives the object.
  PoolTracks(const std::string& folder, const std::string& pool, FileSystem* fs, const Logger& log);
  ~PoolTracks();

  // `session` names the start of the ranks.
  void Progressed(const v1::Assignment& job, const std::string& session,
                  const v1::PoolProgress& progress);
  void Evaluated(const v1::Assignment& job, const v1::Evaluation& evaluation);
  // The ranks ended.
  void Close();

 private:
  std::string RunFolder(const v1::Assignment& job, const std::string& run) const;

  const std::string folder_, run_;
  // The runner is destroyed first, and finishes what waits.
  std::unique_ptr<Tracker> tracker_;
  std::unique_ptr<Executor> runner_;
};

}  // namespace longhaul
