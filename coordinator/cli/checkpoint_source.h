// A checkpoint of a job as a folder of this machine: the coordinator's own, if it is here, or a copy.
#pragma once

#include <string>
#include <variant>

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

struct LocalCheckpoint {
  std::string folder;
  bool copied = false;  // Made for this command; nobody else's.
};

// That of arguments.job (JOB or JOB@STEP; the newest). With arguments.last_commit, or if it has none
// yet, a job that runs is asked for one of its next whole version first. A copy goes into
// arguments.cache, where a later call finds it, or beside arguments.out; a broken one stays as
// FOLDER.partial, and the same command goes on with it. Blocks.
std::variant<LocalCheckpoint, CliError> BringCheckpoint(const Arguments& arguments, Client& client,
                                                        const Environment& environment);

}  // namespace longhaul::cli
