#include "worker/data/graph/pair_splits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "worker/data/graph/edge_sorter.h"
#include "worker/data/graph/number_pairs.h"

namespace longhaul {

struct PairSplits::Row {
  const char* name;
  GraphPairs GraphImport::*pairs;
  int64_t GraphManifest::*count;
  double share;
};

namespace {

constexpr char kPairsHint[] = "a pair belongs to one split, in one direction or the other";
// "splitpai". So that a share and what a job draws by the same seed differ.
constexpr uint64_t kShareStream = 0x73706c6974706169;

absl::Status Refused(absl::string_view message, absl::string_view hint) {
  return WithHint(absl::InvalidArgumentError(message), hint);
}

absl::Status ReadPairLabels(const NumberFile& file, std::vector<bool>& positive) {
  LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(file));
  if (rows->columns() > 1)
    return Refused(absl::StrCat(rows->name(), ": ", rows->columns(), " labels of each pair"),
                   "give one label for each");
  return ForEachRow<double>(
      *rows, [&](int64_t row, absl::Span<const double> value) -> absl::Status {
        if (value[0] != 0 && value[0] != 1) {
          return rows->ErrorAt(row, 0, absl::StrCat("the label ", value[0], " is neither 0 nor 1"),
                               "a pair is linked (1), or is not (0)");
        }
        positive.push_back(value[0] == 1);
        return absl::OkStatus();
      });
}

}  // namespace

// Training pairs last: they are compared with the others.
absl::Status PairSplits::CopyFiles() {
  const Row splits[] = {
      {"valid_pairs", &GraphImport::valid_pairs, &GraphManifest::valid_pairs, import_.valid_share},
      {"test_pairs", &GraphImport::test_pairs, &GraphManifest::test_pairs, import_.test_share},
      {"train_pairs", &GraphImport::train_pairs, &GraphManifest::train_pairs, 0}};
  for (const Row& split : splits) {
    const GraphPairs& given = import_.*split.pairs;
    if (!given.pairs.has_value()) continue;
    if (split.count == &GraphManifest::train_pairs &&
        import_.valid_share + import_.test_share > 0) {
      return Refused("training pairs of a file, and others by a share of the edges",
                     "give all pairs as files, or none");
    }
    if (split.share > 0) {
      return Refused(absl::StrCat("both a file and a share for ", split.name),
                     "give the file, or a share of the edges");
    }
    std::vector<uint64_t> keys;
    LH_RETURN_IF_ERROR(CopyFile(split, given, keys));
    std::sort(keys.begin(), keys.end());
    if (split.count != &GraphManifest::train_pairs) of_files_.emplace_back(split.name, keys);
  }
  for (const auto& [name, keys] : of_files_) {
    for (const uint64_t key : keys) {
      left_out_.push_back(key);
      left_out_.push_back(EdgeKey(TargetOf(key), SourceOf(key)));
    }
  }
  of_files_ = {};
  std::sort(left_out_.begin(), left_out_.end());
  return absl::OkStatus();
}

// `keys`: of the pairs, with the smaller node as the source.
absl::Status PairSplits::CopyFile(const Row& split, const GraphPairs& given,
                                  std::vector<uint64_t>& keys) {
  std::vector<bool> positive;
  if (given.labels.has_value()) LH_RETURN_IF_ERROR(ReadPairLabels(*given.labels, positive));
  int64_t& count = manifest_.*split.count;
  size_t read = 0;
  writer_.StartArray(split.name, NpyType::kInt64);
  LH_RETURN_IF_ERROR(ForEachPair(
      *given.pairs, import_.nodes,
      [&](const PairPlace& at, int64_t source, int64_t target) -> absl::Status {
        ++read;
        if (read <= positive.size() && !positive[read - 1]) return absl::OkStatus();
        if (source == target) {
          return at.Error(absl::StrCat("a pair of the node ", source, " with itself"),
                          "remove it: there is nothing to predict");
        }
        const uint64_t key = EdgeKey(std::min(source, target), std::max(source, target));
        for (const auto& [name, others] : of_files_) {
          if (std::binary_search(others.begin(), others.end(), key)) {
            return at.Error(
                absl::StrCat("the pair ", source, ", ", target, " is already in ", name),
                kPairsHint);
          }
        }
        keys.push_back(key);
        ++count;
        const int64_t pair[] = {source, target};
        return writer_.Append(absl::MakeConstSpan(pair));
      }));
  if (given.labels.has_value() && positive.size() != read) {
    return Refused(absl::StrCat(given.labels->path, ": ", positive.size(), " labels for ", read,
                                " pairs of ", given.pairs->path),
                   "give one label for each");
  }
  if (count == 0) {
    return Refused(absl::StrCat(given.pairs->path, ": no pair"),
                   "leave it out if there is no such split");
  }
  return writer_.EndArray({count, 2});
}

bool PairSplits::Stays(uint64_t key) {
  while (passed_ < left_out_.size() && left_out_[passed_] < key) ++passed_;
  const bool given = passed_ < left_out_.size() && left_out_[passed_] == key;
  const bool drawn = !given && Draws(key);
  if (import_.keep_held_out || !(given || drawn)) return true;
  ++manifest_.held_out_edges;
  return false;
}

bool PairSplits::Draws(uint64_t key) {
  if (import_.valid_share == 0 && import_.test_share == 0) return false;
  const auto source = static_cast<int64_t>(SourceOf(key));
  const auto target = static_cast<int64_t>(TargetOf(key));
  const uint64_t random =
      Philox64(import_.split_seed ^ kShareStream, static_cast<uint64_t>(std::min(source, target)),
               static_cast<uint64_t>(std::max(source, target)));
  const double at = static_cast<double>(random >> 11) * 0x1.0p-53;
  const bool of_test = at < import_.test_share;
  if (!of_test && at >= import_.test_share + import_.valid_share) return false;
  // Equal edges are one pair, and so are an edge and its reverse, in one of both directions.
  const bool again = key == drawn_before_;
  const bool reverse = import_.reverse_edges && (source < target) != ((random & 1) == 0);
  drawn_before_ = key;
  if (again || reverse) return true;
  for (const int64_t end : {source, target}) (of_test ? test_ : valid_).push_back(end);
  return true;
}

absl::Status PairSplits::WriteDrawn() {
  LH_RETURN_IF_ERROR(WriteDrawn("valid_pairs", import_.valid_share, valid_, manifest_.valid_pairs));
  return WriteDrawn("test_pairs", import_.test_share, test_, manifest_.test_pairs);
}

absl::Status PairSplits::WriteDrawn(const char* name, double share, absl::Span<const int64_t> ends,
                                    int64_t& count) {
  if (share == 0) return absl::OkStatus();
  count = static_cast<int64_t>(ends.size()) / 2;
  if (count == 0) {
    return Refused(absl::StrCat("no edge fell into the share ", share, " for ", name),
                   "give a larger share, or a file of pairs");
  }
  writer_.StartArray(name, NpyType::kInt64);
  LH_RETURN_IF_ERROR(writer_.Append(ends));
  return writer_.EndArray({count, 2});
}

}  // namespace longhaul
