// The checkpoint that a submitted job wants to begin with: found, and compared with its model.
#pragma once

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "coordinator/service/service_context.h"

namespace longhaul::coordinator {

// Any thread; blocks on the disk. Does nothing without spec.init. Names the checkpoint exactly in the
// spec: by the job's id and the step, or by the folder's whole path.
//   INVALID_ARGUMENT  with a BadRequest that names init.checkpoint or init.folder: there is none, it is
//                     outside of --import-dir, its tensors are not those of the model
absl::Status ResolveInitial(const ServiceContext& service, ResolvedJob& resolved);

}  // namespace longhaul::coordinator
