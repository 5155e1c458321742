// A graph that `longhaul graph import` made, mapped into memory: a folder of arrays and a manifest
// (graph_manifest.h). Features may be larger than the memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/graph/graph_manifest.h"
#include "common/io/mapped_file.h"

namespace longhaul {

// The in-edges of each node, in the form of common/graph/graph_manifest.h. The arrays belong to
// somebody else.
struct GraphEdges {
  int64_t nodes = 0;
  // nodes + 1.
  absl::Span<const int64_t> indptr;
  // The sources, in one of two widths; the other is null.
  const int32_t* sources = nullptr;
  const int64_t* wide_sources = nullptr;

  int64_t edges() const { return indptr.empty() ? 0 : indptr.back(); }
};

struct NodePair {
  int64_t source = 0, target = 0;
  friend bool operator==(const NodePair&, const NodePair&) = default;
};

// Movable: spans stay valid. Thread-safe (immutable).
class GraphFolder {
 public:
  struct Options {
    // Reads everything once, and compares it with its digests and with what the arrays promise. A
    // process that knows that another one has done so may leave it out; sizes, types and indptr are
    // checked in any case.
    bool read_all = true;
  };
  // Blocks on the disk. NOT_FOUND: no such folder, or one without a manifest or an array.
  // INVALID_ARGUMENT: an array breaks a promise; the message names file and position, no value.
  // DATA_LOSS: a file is cut, or its bytes are not those that were imported. With a hint.
  static absl::StatusOr<GraphFolder> Open(const std::string& path, const Options& options);
  static absl::StatusOr<GraphFolder> Open(const std::string& path) { return Open(path, Options()); }

  const std::string& path() const { return path_; }
  const GraphManifest& manifest() const { return manifest_; }
  int64_t nodes() const { return manifest_.nodes; }
  int64_t columns() const { return manifest_.columns; }

  GraphEdges edges() const;
  // Row by row: nodes * columns.
  absl::Span<const float> features() const { return Values<float>("features"); }
  // Empty without classes.
  absl::Span<const int32_t> labels() const { return Values<int32_t>("labels"); }
  absl::Span<const int64_t> train() const { return Values<int64_t>("train"); }
  absl::Span<const int64_t> valid() const { return Values<int64_t>("valid"); }
  absl::Span<const int64_t> test() const { return Values<int64_t>("test"); }
  // For link prediction.
  absl::Span<const NodePair> train_pairs() const { return Values<NodePair>("train_pairs"); }
  absl::Span<const NodePair> valid_pairs() const { return Values<NodePair>("valid_pairs"); }
  absl::Span<const NodePair> test_pairs() const { return Values<NodePair>("test_pairs"); }
  // The user's id of a node; its number, if the graph was imported without ids.
  std::string IdOf(int64_t node) const;
  // By node; empty unless the ids are numbers.
  absl::Span<const int64_t> number_ids() const { return Values<int64_t>("ids"); }
  // Of a graph whose ids are texts.
  absl::string_view TextIdOf(int64_t node) const;

  // DATA_LOSS: a file was cut, written to or replaced since Open, or could not be read. What was
  // read from the spans before a call that returns OK is what was verified. Some system calls.
  absl::Status Check() const;

 private:
  struct Array {
    std::string name;
    MappedFile file;
    int64_t data = 0;
  };
  GraphFolder() = default;
  // Empty: the graph has no such array.
  absl::Span<const uint8_t> BytesIn(absl::string_view name) const;
  template <typename T>
  absl::Span<const T> Values(absl::string_view name) const {
    const absl::Span<const uint8_t> bytes = BytesIn(name);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  absl::Status OpenArray(const std::string& name, const GraphArray& expected);
  absl::Status ReadAll() const;

  std::string path_;
  GraphManifest manifest_;
  std::vector<Array> arrays_;
};

}  // namespace longhaul
