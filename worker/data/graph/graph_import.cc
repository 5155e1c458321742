#include "worker/data/graph/graph_import.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/base/counted.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/graph/graph_writer.h"
#include "common/io/available_memory.h"
#include "common/io/file_util.h"
#include "worker/data/graph/edge_sorter.h"
#include "worker/data/graph/number_pairs.h"
#include "worker/data/graph/pair_splits.h"

namespace longhaul {
namespace {

constexpr char kRunsFile[] = "edges.runs";

struct SplitRow {
  const char* name;
  GraphSplit GraphImport::*split;
  int64_t GraphManifest::*count;
};
constexpr SplitRow kSplits[] = {{"train", &GraphImport::train, &GraphManifest::train},
                                {"valid", &GraphImport::valid, &GraphManifest::valid},
                                {"test", &GraphImport::test, &GraphManifest::test}};

absl::Status Wrong(absl::string_view message, absl::string_view hint) {
  return WithHint(absl::InvalidArgumentError(message), hint);
}

class Importer {
 public:
  Importer(FileSystem& fs, const GraphImport& import, GraphWriter writer)
      : fs_(fs), import_(import), writer_(std::move(writer)) {
    manifest_.nodes = import.nodes;
    manifest_.reverse_edges = import.reverse_edges;
    manifest_.duplicates_kept = import.keep_duplicates;
  }

  // What is small, and fails soon, comes first.
  absl::StatusOr<GraphImportResult> Run() {
    LH_RETURN_IF_ERROR(CheckNodes());
    LH_RETURN_IF_ERROR(ReadNames());
    LH_RETURN_IF_ERROR(ReadSplits());
    LH_RETURN_IF_ERROR(ReadLabels());
    LH_RETURN_IF_ERROR(WriteLabelsAndSplits());
    LH_RETURN_IF_ERROR(pairs_.CopyFiles());
    LH_RETURN_IF_ERROR(CopyIds());
    LH_RETURN_IF_ERROR(CopyFeatures());
    LH_RETURN_IF_ERROR(SortEdges());
    LH_ASSIGN_OR_RETURN(manifest_, writer_.Finish(std::move(manifest_)));
    if (std::string warning = WarningOfInEdges(manifest_); !warning.empty())
      warnings_.push_back(std::move(warning));
    return GraphImportResult{std::move(manifest_), std::move(warnings_)};
  }

 private:
  enum Split : uint8_t { kNone, kTrain, kValid, kTest };
  int64_t nodes() const { return import_.nodes; }

  // Before memory is taken for so many nodes.
  absl::Status CheckNodes() const {
    for (const auto& [file, what] :
         {std::pair{std::optional(import_.features), "row"}, {import_.labels, "label"}}) {
      if (!file.has_value()) continue;
      LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(*file));
      if (rows->rows().has_value())
        LH_RETURN_IF_ERROR(AsManyAsNodes(rows->name(), *rows->rows(), what));
    }
    const int64_t least = nodes() * static_cast<int64_t>(sizeof(int64_t));
    const absl::StatusOr<int64_t> available = AvailableMemory();
    if (!available.ok() || least <= *available) return absl::OkStatus();
    return WithHint(absl::ResourceExhaustedError(
                        absl::StrCat(nodes(), " nodes take at least ", BytesText(least),
                                     " of memory, and ", BytesText(*available), " are available")),
                    "correct the number of nodes, or import on a machine with more memory");
  }

  absl::Status ReadSplits() {
    split_of_.assign(nodes(), kNone);
    for (int i = 0; i < 3; ++i) {
      const std::optional<NumberFile>& file = (import_.*kSplits[i].split).nodes;
      if (file.has_value()) LH_RETURN_IF_ERROR(ReadSplit(*file, static_cast<Split>(i + 1)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSplit(const NumberFile& file, Split split) {
    LH_ASSIGN_OR_RETURN(const bool mask, IsMask(file));
    LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(file));
    int64_t& count = manifest_.*kSplits[split - 1].count;
    LH_RETURN_IF_ERROR(ForEachRow<int64_t>(
        *rows, [&](int64_t row, absl::Span<const int64_t> value) -> absl::Status {
          if (mask && value[0] == 0) return absl::OkStatus();
          const int64_t node = mask ? row : value[0];
          if (node < 0 || node >= nodes()) return NodeOutOfRange(*rows, row, 0, node, nodes());
          if (split_of_[node] != kNone) {
            return rows->ErrorAt(row, 0,
                                 absl::StrCat("the node ", node, " is already in ",
                                              kSplits[split_of_[node] - 1].name),
                                 "a node belongs to one split, once");
          }
          split_of_[node] = split;
          ++count;
          return absl::OkStatus();
        }));
    if (count > 0) return absl::OkStatus();
    return Wrong(absl::StrCat(rows->name(), ": no node"),
                 split == kTrain ? "give the nodes to train on"
                                 : absl::StrCat("leave it out if there is no such split"));
  }

  // Booleans, or 0 and 1 as often as there are nodes.
  absl::StatusOr<bool> IsMask(const NumberFile& file) const {
    LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(file));
    if (rows->columns() > 1)
      return Wrong(
          absl::StrCat(rows->name(), ": ", Counted(rows->columns(), "column"), ", not one"),
          "give the numbers of the split's nodes, one in a row, or a mask of all nodes");
    if (rows->header().has_value()) {
      const bool all = *rows->rows() == nodes();
      if (rows->header()->type == NpyType::kBool && !all) {
        return Wrong(absl::StrCat(rows->name(), ": a mask of ", *rows->rows(), " values for ",
                                  nodes(), " nodes"),
                     "give a mask of all nodes, or the numbers of the split's nodes");
      }
      if (rows->header()->type == NpyType::kBool) return true;
      if (!all || nodes() < 3) return false;
    }
    int64_t values = 0, others = 0;
    LH_RETURN_IF_ERROR(
        ForEachRow<int64_t>(*rows, [&](int64_t, absl::Span<const int64_t> value) -> absl::Status {
          ++values;
          others += value[0] != 0 && value[0] != 1;
          return absl::OkStatus();
        }));
    return values == nodes() && nodes() >= 3 && others == 0;
  }

  absl::StatusOr<int32_t> LabelOf(const NumberRows& rows, int64_t row, double value) const {
    if (std::isnan(value) || value == -1) return -1;
    if (value != std::floor(value)) {
      return rows.ErrorAt(row, 0, absl::StrCat("the label ", value, " is not a whole number"),
                          "labels are classes from 0 on; -1 or NaN: unlabelled");
    }
    if (value < 0 || value >= static_cast<double>(kGraphClassesMax)) {
      return rows.ErrorAt(
          row, 0, absl::StrCat("the label ", value, " is not from -1 to ", kGraphClassesMax - 1),
          "labels are classes from 0 on; -1 or NaN: unlabelled");
    }
    return static_cast<int32_t>(value);
  }

  static absl::Status OneLabelEach(const NumberRows& rows) {
    if (rows.columns() <= 1) return absl::OkStatus();
    return Wrong(absl::StrCat(rows.name(), ": ", rows.columns(),
                              " labels of each node; only one is supported"),
                 "choose one column: a node has one class");
  }

  absl::Status ReadLabels() {
    bool given = import_.labels.has_value();
    for (const SplitRow& split : kSplits) given = given || (import_.*split.split).labels;
    if (!given) {
      if (class_count_ == 0) return absl::OkStatus();
      return Wrong("classes without labels", "give labels, or leave the classes out");
    }
    labels_.assign(nodes(), -1);
    if (import_.labels.has_value()) {
      LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(*import_.labels));
      LH_RETURN_IF_ERROR(OneLabelEach(*rows));
      int64_t count = 0;
      LH_RETURN_IF_ERROR(ForEachRow<double>(
          *rows, [&](int64_t row, absl::Span<const double> value) -> absl::Status {
            if (row < nodes()) {
              LH_ASSIGN_OR_RETURN(labels_[row], LabelOf(*rows, row, value[0]));
              LH_RETURN_IF_ERROR(CountLabel(*rows, row, labels_[row]));
            }
            ++count;
            return absl::OkStatus();
          }));
      LH_RETURN_IF_ERROR(AsManyAsNodes(rows->name(), count, "label"));
    }
    for (const SplitRow& split : kSplits) LH_RETURN_IF_ERROR(ReadSplitLabels(import_.*split.split));
    manifest_.labelled =
        std::count_if(labels_.begin(), labels_.end(), [](int32_t label) { return label >= 0; });
    if (manifest_.labelled == 0)
      return Wrong("every node is unlabelled", "leave the labels out, or give some");
    manifest_.classes =
        class_count_ > 0 ? class_count_ : 1 + *std::max_element(labels_.begin(), labels_.end());
    return absl::OkStatus();
  }

  // The labels of a split, in the order of its nodes.
  absl::Status ReadSplitLabels(const GraphSplit& split) {
    if (!split.labels.has_value()) return absl::OkStatus();
    LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(*split.labels));
    LH_RETURN_IF_ERROR(OneLabelEach(*rows));
    std::vector<int64_t> nodes;
    LH_ASSIGN_OR_RETURN(const auto seeds, NumberRows::Open(*split.nodes));
    LH_RETURN_IF_ERROR(
        ForEachRow<int64_t>(*seeds, [&](int64_t, absl::Span<const int64_t> value) -> absl::Status {
          nodes.push_back(value[0]);
          return absl::OkStatus();
        }));
    size_t count = 0;
    LH_RETURN_IF_ERROR(
        ForEachRow<double>(*rows, [&](int64_t row, absl::Span<const double> value) -> absl::Status {
          if (count++ >= nodes.size()) return absl::OkStatus();
          LH_ASSIGN_OR_RETURN(labels_[nodes[row]], LabelOf(*rows, row, value[0]));
          return CountLabel(*rows, row, labels_[nodes[row]]);
        }));
    if (count == nodes.size()) return absl::OkStatus();
    return Wrong(
        absl::StrCat(rows->name(), ": ", Counted(static_cast<int64_t>(count), "label"), " for ",
                     Counted(static_cast<int64_t>(nodes.size()), "node"), " of ", seeds->name()),
        "give one label for each");
  }

  absl::Status CountLabel(const NumberRows& rows, int64_t row, int32_t label) const {
    if (class_count_ == 0 || label < class_count_) return absl::OkStatus();
    return rows.ErrorAt(row, 0,
                        absl::StrCat("the label ", label, " is not one of ", class_count_,
                                     " classes, from 0 to ", class_count_ - 1),
                        "correct the label, or the number of classes or their names");
  }

  static absl::Status NamesIn(const std::string& path, int64_t most,
                              std::vector<std::string>& names) {
    LH_RETURN_IF_ERROR(ForEachLine(path, [&](int64_t line, absl::string_view name) -> absl::Status {
      if (name.empty() || name.size() > 4096)
        return Wrong(absl::StrCat(path, ": line ", line + 1, ": not a name of 1 to 4096 bytes"),
                     "give a text file with a name on each line");
      names.emplace_back(name);
      if (static_cast<int64_t>(names.size()) <= most) return absl::OkStatus();
      return Wrong(absl::StrCat(path, ": more than ", most, " names"), "give fewer");
    }));
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (names.empty()) return Wrong(absl::StrCat(path, ": no name"), "leave the file out");
    if (twice == sorted.end()) return absl::OkStatus();
    return Wrong(absl::StrCat(path, ": the name \"", *twice, "\" occurs twice"),
                 "give each a name of its own");
  }

  absl::Status ReadNames() {
    class_count_ = import_.classes;
    if (!import_.class_names.empty()) {
      LH_RETURN_IF_ERROR(NamesIn(import_.class_names, kGraphClassesMax, manifest_.class_names));
      class_count_ = static_cast<int64_t>(manifest_.class_names.size());
      if (import_.classes > 0 && import_.classes != class_count_) {
        return Wrong(absl::StrCat(import_.class_names, ": ", Counted(class_count_, "name"), " for ",
                                  import_.classes, " classes"),
                     "give a name for each class");
      }
    }
    if (!import_.feature_names.empty())
      return NamesIn(import_.feature_names, kGraphColumnsMax, manifest_.feature_names);
    return absl::OkStatus();
  }

  absl::Status AsManyAsNodes(absl::string_view name, int64_t count, absl::string_view what) const {
    if (count == nodes()) return absl::OkStatus();
    return Wrong(absl::StrCat(name, ": ", Counted(count, what), " for ", Counted(nodes(), "node")),
                 "give one row for each node");
  }

  absl::Status WriteLabelsAndSplits() {
    if (!labels_.empty())
      LH_RETURN_IF_ERROR(
          writer_.WriteArray("labels", NpyType::kInt32, absl::MakeConstSpan(labels_)));
    std::vector<bool> trained(manifest_.classes);
    int64_t unlabelled = 0;
    for (const Split split : {kTrain, kValid, kTest}) {
      if (manifest_.*kSplits[split - 1].count == 0) continue;
      writer_.StartArray(kSplits[split - 1].name, NpyType::kInt64);
      for (int64_t node = 0; node < nodes(); ++node) {
        if (split_of_[node] != split) continue;
        LH_RETURN_IF_ERROR(writer_.Append(absl::MakeConstSpan(&node, 1)));
        if (split != kTrain || labels_.empty()) continue;
        if (labels_[node] < 0) {
          ++unlabelled;
        } else {
          trained[labels_[node]] = true;
        }
      }
      LH_RETURN_IF_ERROR(writer_.EndArray({manifest_.*kSplits[split - 1].count}));
    }
    if (unlabelled > 0) {
      warnings_.push_back(absl::StrCat(unlabelled, " of ", manifest_.train,
                                       " training nodes are unlabelled: they add nothing to the "
                                       "loss"));
    }
    const int64_t untrained = std::count(trained.begin(), trained.end(), false);
    if (untrained > 0 && manifest_.train > 0) {
      const int64_t first = std::find(trained.begin(), trained.end(), false) - trained.begin();
      warnings_.push_back(absl::StrCat(
          untrained, " of ", manifest_.classes, " classes occur in no training node; the first is ",
          manifest_.class_names.empty() ? absl::StrCat(first) : manifest_.class_names[first]));
    }
    labels_ = {};
    split_of_ = {};
    return absl::OkStatus();
  }

  absl::Status CopyIds() {
    if (import_.ids.empty()) return absl::OkStatus();
    if (absl::EndsWith(import_.ids, ".npy")) return CopyNumberIds();
    bool numbers = true;
    int64_t count = 0;
    std::vector<uint64_t> hashes;
    hashes.reserve(nodes());
    LH_RETURN_IF_ERROR(
        ForEachLine(import_.ids, [&](int64_t line, absl::string_view id) -> absl::Status {
          int64_t number = 0;
          numbers = numbers && absl::SimpleAtoi(id, &number) && absl::StrCat(number) == id;
          if (id.empty())
            return Wrong(absl::StrCat(import_.ids, ": line ", line + 1, ": empty"),
                         "give an id for each node, one on each line");
          if (++count <= nodes()) hashes.push_back(DigestOf(id).low);
          return absl::OkStatus();
        }));
    LH_RETURN_IF_ERROR(AsManyAsNodes(import_.ids, count, "id"));
    std::sort(hashes.begin(), hashes.end());
    const auto twice = std::adjacent_find(hashes.begin(), hashes.end());
    if (twice != hashes.end()) return RepeatedId(*twice);
    hashes = {};
    if (numbers) return CopyNumberIds();
    manifest_.ids = GraphIds::kTexts;
    std::vector<int64_t> ends;
    ends.reserve(nodes());
    int64_t end = 0;
    writer_.StartArray("id_bytes", NpyType::kUint8);
    LH_RETURN_IF_ERROR(ForEachLine(import_.ids, [&](int64_t, absl::string_view id) {
      end += static_cast<int64_t>(id.size());
      ends.push_back(end);
      return writer_.Append(id);
    }));
    LH_RETURN_IF_ERROR(writer_.EndArray({end}));
    return writer_.WriteArray("id_ends", NpyType::kInt64, absl::MakeConstSpan(ends));
  }

  absl::Status RepeatedId(uint64_t hash) const {
    std::vector<int64_t> lines;
    LH_RETURN_IF_ERROR(ForEachLine(import_.ids, [&](int64_t line, absl::string_view id) {
      if (DigestOf(id).low == hash) lines.push_back(line + 1);
      return absl::OkStatus();
    }));
    return Wrong(absl::StrCat(import_.ids, ": line ", lines[1], ": the id of line ", lines[0]),
                 "give each node an id of its own");
  }

  absl::Status CopyNumberIds() {
    manifest_.ids = GraphIds::kNumbers;
    LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open({import_.ids, ""}));
    if (rows->columns() > 1)
      return Wrong(absl::StrCat(rows->name(), ": ", rows->columns(), " ids of each node"),
                   "give one id for each node");
    std::vector<int64_t> ids;
    LH_RETURN_IF_ERROR(
        ForEachRow<int64_t>(*rows, [&](int64_t, absl::Span<const int64_t> id) -> absl::Status {
          if (static_cast<int64_t>(ids.size()) <= nodes()) ids.push_back(id[0]);
          return absl::OkStatus();
        }));
    LH_RETURN_IF_ERROR(AsManyAsNodes(rows->name(), static_cast<int64_t>(ids.size()), "id"));
    LH_RETURN_IF_ERROR(writer_.WriteArray("ids", NpyType::kInt64, absl::MakeConstSpan(ids)));
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    if (twice == ids.end()) return absl::OkStatus();
    return Wrong(absl::StrCat(rows->name(), ": the id ", *twice, " occurs twice"),
                 "give each node an id of its own");
  }

  absl::Status CopyFeatures() {
    LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(import_.features));
    manifest_.columns = rows->columns();
    if (manifest_.columns < 1 || manifest_.columns > kGraphColumnsMax) {
      return Wrong(absl::StrCat(rows->name(), ": ", Counted(manifest_.columns, "column")),
                   absl::StrCat("features have 1 to ", kGraphColumnsMax, " columns"));
    }
    if (!manifest_.feature_names.empty() &&
        static_cast<int64_t>(manifest_.feature_names.size()) != manifest_.columns) {
      return Wrong(absl::StrCat(import_.feature_names, ": ", manifest_.feature_names.size(),
                                " names for ", manifest_.columns, " columns of ", rows->name()),
                   "give a name for each column");
    }
    if (rows->rows().has_value())
      LH_RETURN_IF_ERROR(AsManyAsNodes(rows->name(), *rows->rows(), "row"));
    int64_t count = 0;
    writer_.StartArray("features", NpyType::kFloat32);
    LH_RETURN_IF_ERROR(
        ForEachRow<float>(*rows, [&](int64_t row, absl::Span<const float> values) -> absl::Status {
          for (size_t i = 0; i < values.size(); ++i) {
            if (std::isfinite(values[i])) continue;
            return rows->ErrorAt(
                row, static_cast<int64_t>(i),
                absl::StrCat("the feature is ", values[i], ", which is not a finite number"),
                "replace it, for example by 0 or the mean of its column");
          }
          ++count;
          return writer_.Append(values);
        }));
    LH_RETURN_IF_ERROR(AsManyAsNodes(rows->name(), count, "row"));
    return writer_.EndArray({nodes(), manifest_.columns});
  }

  absl::Status SortEdges() {
    const std::string runs = JoinPath(writer_.temporary(), kRunsFile);
    EdgeSorter sorter(&fs_, {.nodes = nodes(),
                             .keep_duplicates = import_.keep_duplicates,
                             .memory_bytes = import_.memory_bytes,
                             .path = runs});
    for (const NumberFile& file : import_.edges) {
      LH_RETURN_IF_ERROR(
          ForEachPair(file, nodes(), [&](const PairPlace&, int64_t source, int64_t target) {
            return AddPair(source, target, sorter);
          }));
    }
    const bool wide = import_.wide_sources || nodes() > std::numeric_limits<int32_t>::max();
    std::vector<int64_t> indptr(nodes() + 1);
    std::vector<int32_t> narrow;
    std::vector<int64_t> whole;
    writer_.StartArray("indices", wide ? NpyType::kInt64 : NpyType::kInt32);
    LH_RETURN_IF_ERROR(sorter.Merge([&](absl::Span<const uint64_t> all) -> absl::Status {
      for (; !all.empty(); all.remove_prefix(std::min<size_t>(all.size(), kPieceNumbers))) {
        const absl::Span<const uint64_t> keys = all.subspan(0, kPieceNumbers);
        narrow.clear();
        whole.clear();
        for (const uint64_t key : keys) {
          if (!pairs_.Stays(key)) continue;
          ++manifest_.edges;
          ++indptr[TargetOf(key) + 1];
          if (wide) {
            whole.push_back(static_cast<int64_t>(SourceOf(key)));
          } else {
            narrow.push_back(static_cast<int32_t>(SourceOf(key)));
          }
        }
        LH_RETURN_IF_ERROR(wide ? writer_.Append(absl::MakeConstSpan(whole))
                                : writer_.Append(absl::MakeConstSpan(narrow)));
      }
      return absl::OkStatus();
    }));
    LH_RETURN_IF_ERROR(writer_.EndArray({manifest_.edges}));
    manifest_.merged_duplicates = sorter.merged();
    LH_RETURN_IF_ERROR(pairs_.WriteDrawn());
    for (int64_t node = 0; node < nodes(); ++node) {
      manifest_.nodes_without_in_edges += indptr[node + 1] == 0;
      indptr[node + 1] += indptr[node];
    }
    LH_RETURN_IF_ERROR(writer_.WriteArray("indptr", NpyType::kInt64, absl::MakeConstSpan(indptr)));
    const absl::Status removed = fs_.Remove(runs);
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  }

  absl::Status AddPair(int64_t source, int64_t target, EdgeSorter& sorter) {
    ++manifest_.pairs_read;
    if (source == target) {
      ++manifest_.dropped_loops;
      return absl::OkStatus();
    }
    LH_RETURN_IF_ERROR(sorter.Add(EdgeKey(source, target)));
    return import_.reverse_edges ? sorter.Add(EdgeKey(target, source)) : absl::OkStatus();
  }

  FileSystem& fs_;
  const GraphImport& import_;
  GraphWriter writer_;
  GraphManifest manifest_;
  std::vector<std::string> warnings_;
  // By node.
  std::vector<uint8_t> split_of_;
  std::vector<int32_t> labels_;
  // 0: not given.
  int64_t class_count_ = 0;
  // Writes with the writer, and to the manifest above.
  PairSplits pairs_{import_, writer_, manifest_};
};

}  // namespace

absl::StatusOr<GraphImportResult> ImportGraph(FileSystem& fs, const GraphImport& import) {
  if (import.nodes < 1 || import.nodes > kGraphNodesMax) {
    return Wrong(absl::StrCat("a graph of ", import.nodes, " nodes"),
                 absl::StrCat("a graph has 1 to ", kGraphNodesMax, " nodes"));
  }
  const double shares = import.valid_share + import.test_share;
  if (!(import.valid_share >= 0 && import.test_share >= 0 && shares < 1)) {
    return Wrong(
        absl::StrCat("shares of ", import.valid_share, " and ", import.test_share, " of the edges"),
        "shares are from 0 to 1, and leave some edges to train on");
  }
  LH_ASSIGN_OR_RETURN(GraphWriter writer, GraphWriter::Create(&fs, import.out));
  return Importer(fs, import, std::move(writer)).Run();
}

std::string WarningOfInEdges(const GraphManifest& manifest) {
  const double share = static_cast<double>(manifest.nodes_without_in_edges) /
                       static_cast<double>(std::max<int64_t>(manifest.nodes, 1));
  if (share <= 0.2) return "";
  return absl::StrFormat(
      "%.1f %% of the nodes have no in-edge, so nothing reaches them from neighbors%s", 100 * share,
      manifest.reverse_edges ? ""
                             : "; import with --reverse-edges unless edges mean something else in "
                               "the other direction");
}

}  // namespace longhaul
