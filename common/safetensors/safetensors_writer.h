// Writes a safetensors file as a stream: the bytes of its tensors, one after another, in pieces of any
// size. The file appears whole, under its name, or not at all.
//
// Not thread-safe; blocks. Errors are those of the file system.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"
#include "common/safetensors/safetensors_header.h"

namespace longhaul {

class SafetensorsWriter {
 public:
  // Writes the header to `path`.tmp. `fs` outlives the object. Offsets of the tensors are their order.
  static absl::StatusOr<SafetensorsWriter> Create(FileSystem* fs, std::string path,
                                                  const SafetensorsHeader& header);
  SafetensorsWriter(SafetensorsWriter&&) = default;
  // Without Finish the temporary file is removed.
  ~SafetensorsWriter();

  // FAILED_PRECONDITION: more than the header says.
  absl::Status Append(absl::string_view bytes);
  // Syncs and gives the file its name. FAILED_PRECONDITION: less than the header says.
  absl::Status Finish();

 private:
  SafetensorsWriter(FileSystem* fs, std::string path, std::unique_ptr<File> file, int64_t begin,
                    int64_t end);

  FileSystem* fs_;
  std::string path_;
  std::unique_ptr<File> file_;  // Null: finished, or moved from.
  int64_t at_, end_;
};

}  // namespace longhaul
