// `longhaul data check`: works on files of this machine, without a server.
#pragma once

#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// Data: {files: [{path, format, compression, bytes, tokens, documents, largest_token, sample:
// {tokens, text}, problems, problem_count}], tokens, documents, problem_count}. `documents` is null
// where files do not mark them. With problems, also the error DATA_LOSS (exit code 1).
Outcome CheckDataFiles(const Arguments& arguments);

}  // namespace longhaul::cli
