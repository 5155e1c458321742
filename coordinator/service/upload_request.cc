#include "coordinator/service/upload_request.h"

#include <string>

#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

absl::StatusOr<std::vector<FolderFile>> AnnouncedFiles(const v1::PrepareUploadRequest& request) {
  std::vector<FolderFile> files;
  for (const v1::UploadedFile& file : request.files())
    files.push_back({file.name(), file.bytes(), file.sha256()});
  if (const absl::Status checked = CheckFolderFiles(files); !checked.ok())
    return BadRequestError({{"files", std::string(checked.message())}});
  if (DigestOfFiles(files) != request.upload())
    return BadRequestError({{"upload", "is not the digest of the files"}});
  return files;
}

}  // namespace longhaul::coordinator
