// Finds the checkpoint or Hugging Face folder with which a submitted job begins, and compares it
// with the job's model.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "coordinator/service/service_context.h"

namespace longhaul::coordinator {

// Call it before the spec is resolved. Fills in the model's shape, and by which tokenizer text is
// read, if init.folder or init.upload is a Hugging Face model, so that the spec need not have it;
// of a job that was submitted with the same words before, what it has, since the folder may be
// gone. Ignores an upload that is not here: ResolveInitial reports it. Any thread; blocks on the
// disk. INVALID_ARGUMENT with a BadRequest: the spec contradicts the folder; or as below.
absl::Status FillModel(const ServiceContext& service, v1::JobSpec& spec);

// Any thread; blocks on the disk. Does nothing without spec.init. Adds beginning_warnings. Writes
// the exact name of the checkpoint into the spec: the job's id and the step, or the folder's whole
// path. If a job was submitted with the same words before, the name is the one that they had then.
//   INVALID_ARGUMENT  with a BadRequest that names init.checkpoint or init.folder: there is none,
//                     it is outside of --import-dir, its tensors are not those of the model
//   NOT_FOUND         UPLOAD_UNKNOWN: init.upload is not here, and no job has the spec's name
absl::Status ResolveInitial(const ServiceContext& service, ResolvedJob& resolved);

// The folder of init.folder within --import-dir; `init` gets its whole path. Errors: as above. Any
// thread; blocks on the disk.
absl::StatusOr<std::string> FindImport(const ServiceContext& service, v1::InitSpec& init);

}  // namespace longhaul::coordinator
