// A checkpoint of a job as a folder of this machine: the coordinator's own, if it is here, or a
// copy.
#pragma once

#include <string>
#include <variant>

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

struct LocalCheckpoint {
  std::string folder;
  // It was made for this command, and nobody else uses it.
  bool copied = false;
};

// Whether a word names a folder of this machine. One that is also the name of a job, or JOB@STEP,
// names the job unless a folder of that name holds a checkpoint or a Hugging Face model: a graph,
// or its job's results, often lie in a folder with the name of the job. Reads the folder.
bool MeansFolder(const std::string& word);

// The checkpoint that arguments.job names: JOB@STEP, or JOB for the newest. With
// arguments.last_commit, or if the job has no checkpoint yet, a job that runs first writes one of
// its next whole version. A copy goes into arguments.cache, where a later call finds it, or beside
// arguments.out. A copy that was interrupted stays as FOLDER.partial, and the same command
// continues it. Blocks.
std::variant<LocalCheckpoint, CliError> BringCheckpoint(const Arguments& arguments, Client& client,
                                                        const Environment& environment);

}  // namespace longhaul::cli
