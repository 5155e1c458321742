// The model that `longhaul eval`, `sample` and `graph predict` use: a folder, or a job, whose
// checkpoint is brought here first.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "coordinator/cli/cli_error.h"
#include "coordinator/cli/environment.h"

namespace longhaul::cli {

// `args` with the command of longhaul-lm first, where options of the connection or -o stand before
// it: `--server X sample JOB` is `sample --server X JOB`. Others are not changed.
std::vector<std::string> WithLmCommandFirst(const std::vector<std::string>& args);

// The words for longhaul-lm. JOB or JOB@STEP becomes the folder of the checkpoint: the
// coordinator's own if it is on this machine, else a copy in the user's cache
// (XDG_CACHE_HOME/longhaul/checkpoints), where a later call finds it. What names a local folder
// (MeansFolder) is not changed. Options of the connection (--server, ...) are taken out. Blocks.
std::variant<std::vector<std::string>, CliError> WithLocalModel(
    const std::vector<std::string>& args, const Environment& environment);

}  // namespace longhaul::cli
