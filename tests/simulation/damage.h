// Files of jobs that were damaged while the coordinator was down: a manifest or a snapshot has
// another byte or is not there, or the header of the log's first file has another byte. A crash
// cannot cause that. Damage to the newest frames of a log looks like what a crash leaves
// (coordinator/store/FORMAT.md, rule 4), so it is not made here.
#pragma once

#include <map>
#include <string>

#include "common/base/random.h"
#include "common/io/filesystem.h"
#include "coordinator/store/meta_store.h"

namespace longhaul::simulation {

class Damage {
 public:
  struct DamagedFile {
    std::string path;
    // Before the damage.
    std::string bytes;
  };

  // Damages a file of a job that has not ended and has none yet. Returns the job, or "" if there is
  // no such job.
  std::string Strike(FileSystem& disk, MetaStore& meta, Random& random);
  // Gives the job's file its bytes again, if its folder is still there.
  void Repair(FileSystem& disk, const std::string& job);

  // By job.
  const std::map<std::string, DamagedFile>& files() const { return files_; }

 private:
  std::map<std::string, DamagedFile> files_;
};

}  // namespace longhaul::simulation
