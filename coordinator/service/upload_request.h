// The files that a client announces, as PrepareUpload of upload.proto has them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/folder_files.h"
#include "longhaul/v1/upload.pb.h"

namespace longhaul::coordinator {

// In the order of the request. INVALID_ARGUMENT with BadRequest: `files` are not those of a folder,
// or `upload` is not their digest. Pure.
absl::StatusOr<std::vector<FolderFile>> AnnouncedFiles(const v1::PrepareUploadRequest& request);

}  // namespace longhaul::coordinator
