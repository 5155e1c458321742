// `longhaul export`: a checkpoint as a Hugging Face folder.
#pragma once

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// Whether what is to be exported is a checkpoint's folder on this machine, so that no server is
// needed.
bool IsLocalExport(const Arguments& arguments);

// `client` may be null for a folder of this machine. Of a job: a checkpoint, brought here if its
// folder is on another machine (checkpoint_source.h). Blocks; a failed export leaves nothing.
Outcome Export(const Arguments& arguments, Client* client, const Environment& environment);

}  // namespace longhaul::cli
