// manifest.json of a graph's folder: what its arrays hold, where they came from, and digests.
// `longhaul graph import` makes it. Pure.
//
// The arrays are files NAME.npy. `nodes` is N, `edges` E, `columns` D; nodes are numbered from 0.
//   indptr     int64 [N + 1]      the in-edges of node v are indptr[v] to indptr[v + 1] - 1
//   indices    int32 or int64 [E] the source of each edge; ascending for each node
//   features   float32 [N, D]     no NaN, no infinity
//   labels     int32 [N]          a class, or -1: unlabelled. Absent without classes
//   train, valid, test  int64     nodes, ascending; no node in two of them. Absent if empty
//   train_pairs, valid_pairs, test_pairs  int64 [., 2]: pairs to predict, source and target; both
//              differ. Absent if empty
//   ids        int64 [N]          the user's own id of each node, if those are numbers
//   id_bytes, id_ends             uint8, int64 [N]: otherwise; UTF-8, one after another
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/graph/npy.h"
#include "common/io/digest.h"

namespace longhaul {

inline constexpr int64_t kGraphNodesMax = (int64_t{1} << 32) - 1;
inline constexpr int64_t kGraphColumnsMax = 1 << 20;
inline constexpr int64_t kGraphClassesMax = 65536;
inline constexpr int64_t kGraphManifestBytesMax = 64 << 20;
inline constexpr char kGraphManifestFile[] = "manifest.json";

enum class GraphIds { kNone, kNumbers, kTexts };

struct GraphArray {
  NpyType type = NpyType::kInt64;
  std::vector<int64_t> shape;
  // Of the array's bytes, without the header of the file.
  Digest128 digest;
  friend bool operator==(const GraphArray&, const GraphArray&) = default;
};

struct GraphManifest {
  int64_t nodes = 0, edges = 0, columns = 0;
  // 0: the graph has no labels.
  int64_t classes = 0;
  // Each edge was imported in both directions; otherwise as written.
  bool reverse_edges = false;
  bool duplicates_kept = false;
  // Of the import: pairs in the files; edges (both directions count) that were equal to another;
  // pairs with equal ends.
  int64_t pairs_read = 0, merged_duplicates = 0, dropped_loops = 0;
  int64_t nodes_without_in_edges = 0;
  int64_t labelled = 0;
  int64_t train = 0, valid = 0, test = 0;
  // Pairs to predict. Without training pairs the edges are those.
  int64_t train_pairs = 0, valid_pairs = 0, test_pairs = 0;
  // Edges that the import left out, since they are validation or test pairs or their reverses.
  int64_t held_out_edges = 0;
  // Empty, or one for each class or column, in order.
  std::vector<std::string> class_names, feature_names;
  GraphIds ids = GraphIds::kNone;
  // By name.
  std::map<std::string, GraphArray> arrays;

  // What all sites of a job must have in common: columns and classes, with their names, in order.
  // SHA-256, in hexadecimal.
  std::string SchemaDigest() const;
  // The same without classes and their names, which a job that predicts links does not read: sites
  // of such a job have the schema of this in common.
  GraphManifest WithoutClasses() const;
  // Of all arrays.
  Digest128 ContentDigest() const;
};

std::string WriteGraphManifest(const GraphManifest& manifest);

// `path` is for messages. INVALID_ARGUMENT: not a manifest of this version; a size out of range; an
// array that is missing, unknown, or of another type or shape than the sizes ask for; a digest that
// does not match. With a hint.
absl::StatusOr<GraphManifest> ParseGraphManifest(absl::string_view path, absl::string_view text);

// What differs between the schemas of two sites, for people: "128 columns at A, 256 at B". Empty:
// nothing does.
std::string SchemaDifference(absl::string_view name_a, const GraphManifest& a,
                             absl::string_view name_b, const GraphManifest& b);

}  // namespace longhaul
