// Sorts edges that are more than fit in memory: runs of a bounded buffer are sorted and written to
// one file, and merged at the end. Edges come out by target, then source: the order of a graph's
// folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"

namespace longhaul {

// An edge as one number, in the order of the sorter. Nodes are below 2^32.
constexpr uint64_t EdgeKey(uint64_t source, uint64_t target) { return target << 32 | source; }
constexpr uint64_t SourceOf(uint64_t key) { return key & 0xffffffff; }
constexpr uint64_t TargetOf(uint64_t key) { return key >> 32; }

// Not thread-safe; blocks on the disk. Errors: those of the file system.
class EdgeSorter {
 public:
  struct Options {
    int64_t nodes = 0;
    // Equal edges stay; otherwise one of them.
    bool keep_duplicates = false;
    // The most that the buffers take.
    int64_t memory_bytes = 256 << 20;
    // The file for the runs; made if there is more than one, and left to the caller to remove.
    std::string path;
  };
  // `fs` outlives the object.
  EdgeSorter(FileSystem* fs, const Options& options);

  absl::Status Add(uint64_t key) {
    if (count_ == capacity_) {
      if (absl::Status status = EndRun(); !status.ok()) return status;
    }
    if (count_ == static_cast<int64_t>(keys_.size())) Grow();
    keys_[count_++] = key;
    return absl::OkStatus();
  }
  // Calls use(keys) with all edges in order, in pieces. Must be the last call. Errors: also those
  // of `use`.
  absl::Status Merge(absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> use);

  // After Merge: how many edges were equal to another one and left out.
  int64_t merged() const { return merged_; }

 private:
  struct Run {
    int64_t begin = 0, keys = 0;
  };
  void Grow();
  void SortBuffer();
  absl::Status EndRun();

  FileSystem* const fs_;
  const Options options_;
  // Of the buffer and of its copy for sorting.
  const int64_t capacity_;
  std::vector<uint64_t> keys_, scratch_;
  int64_t count_ = 0;
  int64_t merged_ = 0;
  std::unique_ptr<File> file_;
  std::vector<Run> runs_;
};

}  // namespace longhaul
