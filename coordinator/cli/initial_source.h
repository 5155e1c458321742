// What `--from` names: a checkpoint of a job, a folder that the coordinator sees in its
// --import-dir, or a folder of this machine, which is sent.
//
//   JOB, JOB@STEP     a checkpoint
//   coordinator:DIR   a folder there
//   here:DIR          a folder here
//   DIR               a folder here, if it is one; else there. If both have one at that path, they
//                     must be the same files: then it is used where it is. Else the user must say
//                     which.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "coordinator/cli/client.h"
#include "coordinator/cli/environment.h"
#include "coordinator/cli/outcome.h"
#include "coordinator/cli/upload.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

struct InitialSource {
  // Must be sent if the coordinator does not have it; spec.init.upload names it. Empty: nothing to
  // send.
  std::optional<FolderToSend> folder;
  // A path that is no folder here, so that it was taken for one of the coordinator's machine.
  std::string not_here;
  // What to do if that is the id of a model at the Hugging Face hub (common/hf/hf_model.h).
  std::string hub_hint;
};

// Fills in spec.init, and the model's shape if the source is a folder here. Such a folder is
// compared with the spec before it is read. If the coordinator may have the folder too, it is
// asked; with arguments.dry_run a coordinator that does not answer counts as one without the
// folder. Blocks.
std::variant<InitialSource, CliError> FindInitialSource(const Arguments& arguments, FileSystem& fs,
                                                        Client& client,
                                                        const Environment& environment,
                                                        v1::JobSpec& spec);

}  // namespace longhaul::cli
