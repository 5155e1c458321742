// Writes a graph's folder, whole or not at all: its files go to `path`.tmp, are synced, and then
// the folder gets its name. Arrays are written one after another, in pieces of any size, and may be
// larger than the memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/graph/graph_manifest.h"
#include "common/io/filesystem.h"

namespace longhaul {

// One writer for each path at a time. Not thread-safe; blocks on the disk. Errors: those of the
// file system; after one, only the destructor may be called.
class GraphWriter {
 public:
  // `fs` outlives the object. ALREADY_EXISTS: something has the name, other than an empty folder;
  // with a hint. Replaces a temporary folder that a crash left.
  static absl::StatusOr<GraphWriter> Create(FileSystem* fs, const std::string& path);
  GraphWriter(GraphWriter&&) = default;
  // Removes the temporary folder, unless Finish was called.
  ~GraphWriter();

  // Where a caller may keep files of its own until Finish; it removes them.
  const std::string& temporary() const { return temporary_; }

  void StartArray(const std::string& name, NpyType type) { name_ = name, type_ = type; }
  absl::Status Append(absl::string_view bytes);
  template <typename T>
  absl::Status Append(absl::Span<const T> values) {
    return Append(
        absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }
  // `shape` is that of the appended elements.
  absl::Status EndArray(const std::vector<int64_t>& shape);
  template <typename T>
  absl::Status WriteArray(const std::string& name, NpyType type, absl::Span<const T> values) {
    StartArray(name, type);
    if (absl::Status status = Append(values); !status.ok()) return status;
    return EndArray({static_cast<int64_t>(values.size())});
  }

  // Adds the arrays to the manifest, writes it, and gives the folder its name, durably.
  // INVALID_ARGUMENT: the manifest and the arrays do not belong together.
  absl::StatusOr<GraphManifest> Finish(GraphManifest manifest);

 private:
  GraphWriter(FileSystem* fs, std::string path);
  absl::Status Flush();

  FileSystem* fs_;
  std::string path_, temporary_;
  // Empty after a move: then nothing is removed.
  std::unique_ptr<bool> unfinished_;
  std::string name_;
  NpyType type_ = NpyType::kInt64;
  std::unique_ptr<File> file_;
  // What is not written yet, and how much is.
  std::string waiting_;
  int64_t written_ = 0;
  Digester digester_;
  std::map<std::string, GraphArray> arrays_;
};

}  // namespace longhaul
