// The checkpoint or Hugging Face folder that a submitted job wants to begin with: found, and compared
// with its model.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "coordinator/service/service_context.h"

namespace longhaul::coordinator {

// Before the spec is resolved: the model's shape, if init.folder or init.upload is a Hugging Face model,
// so that the spec need not say it. An upload that is not here is left to ResolveInitial. Any thread;
// blocks on the disk. INVALID_ARGUMENT with a BadRequest: what the spec says is not what the folder
// says; or as below.
absl::Status FillModel(const ServiceContext& service, v1::JobSpec& spec);

// Any thread; blocks on the disk. Does nothing without spec.init. Names the checkpoint exactly in the
// spec: by the job's id and the step, or by the folder's whole path. For a job that was submitted with
// these words before, that is what they meant then.
//   INVALID_ARGUMENT  with a BadRequest that names init.checkpoint or init.folder: there is none, it is
//                     outside of --import-dir, its tensors are not those of the model
//   NOT_FOUND         UPLOAD_UNKNOWN: init.upload is not here, and no job has the spec's name
absl::Status ResolveInitial(const ServiceContext& service, ResolvedJob& resolved);

// The folder of init.folder within --import-dir; `init` gets its whole path. Errors: as above. Any
// thread; blocks on the disk.
absl::StatusOr<std::string> FindImport(const ServiceContext& service, v1::InitSpec& init);

}  // namespace longhaul::coordinator
