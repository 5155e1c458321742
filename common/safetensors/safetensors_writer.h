// Writes a safetensors file as a stream: the bytes of its tensors, one after another, in pieces of
// any size. The file gets its name only when it is complete (NewFile).
//
// Not thread-safe; blocks. Errors are those of the file system.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"
#include "common/io/new_file.h"
#include "common/safetensors/safetensors_header.h"

namespace longhaul {

class SafetensorsWriter {
 public:
  // Writes the header to `path`.tmp. `fs` outlives the object. The tensors' offsets follow from
  // their order.
  static absl::StatusOr<SafetensorsWriter> Create(FileSystem* fs, std::string path,
                                                  const SafetensorsHeader& header);

  // FAILED_PRECONDITION: more bytes than the header says.
  absl::Status Append(absl::string_view bytes);
  // Syncs the file and gives it its name. FAILED_PRECONDITION: fewer bytes than the header says.
  absl::Status Finish();

 private:
  SafetensorsWriter(NewFile file, int64_t end) : file_(std::move(file)), end_(end) {}

  NewFile file_;
  // The size of the whole file.
  int64_t end_;
};

}  // namespace longhaul
