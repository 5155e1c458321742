#include "common/graph/graph_folder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/io/read_only_file.h"

namespace longhaul {
namespace {

constexpr char kImportAgain[] = "import the graph again with `longhaul graph import`";
// Elements that are verified, and added to the digest, while they are in the cache.
constexpr int64_t kPiece = 1 << 17;

absl::Status Broken(const std::string& path, absl::string_view what) {
  return WithHint(absl::InvalidArgumentError(absl::StrCat(path, ": ", what)), kImportAgain);
}

absl::Status Lost(const absl::Status& status) {
  return WithHint(status, "restore the folder from a copy, or import the graph again");
}

absl::Status CheckIndptr(const std::string& path, absl::Span<const int64_t> indptr, int64_t edges) {
  if (indptr.front() != 0) return Broken(path, "element 0 is not 0");
  for (size_t i = 1; i < indptr.size(); ++i) {
    if (indptr[i] < indptr[i - 1])
      return Broken(path, absl::StrCat("element ", i, " is below the one before it"));
  }
  if (indptr.back() != edges) {
    return Broken(path, absl::StrCat("the last element is not the number of edges, ", edges));
  }
  return absl::OkStatus();
}

// Adds the bytes to the digest, and calls check(first, piece) for each piece.
template <typename T, typename Check>
absl::Status CheckPieces(absl::Span<const T> values, Digester& digester, Check check) {
  for (int64_t first = 0; first < static_cast<int64_t>(values.size()); first += kPiece) {
    const absl::Span<const T> piece = values.subspan(first, kPiece);
    digester.Update(
        absl::string_view(reinterpret_cast<const char*>(piece.data()), piece.size() * sizeof(T)));
    LH_RETURN_IF_ERROR(check(first, piece));
  }
  return absl::OkStatus();
}

// Sources are nodes, and ascend for each target.
template <typename T>
class SourcesCheck {
 public:
  SourcesCheck(const std::string& path, absl::Span<const int64_t> indptr, bool duplicates)
      : path_(path), indptr_(indptr), duplicates_(duplicates) {}

  absl::Status operator()(int64_t first, absl::Span<const T> piece) {
    const auto nodes = static_cast<int64_t>(indptr_.size()) - 1;
    for (size_t i = 0; i < piece.size(); ++i) {
      const int64_t edge = first + static_cast<int64_t>(i), source = piece[i];
      // The bound: somebody may change the file.
      while (target_ + 1 < nodes && indptr_[target_ + 1] <= edge) {
        ++target_;
        before_ = -1;
      }
      if (source < 0 || source >= nodes)
        return Broken(path_,
                      absl::StrCat("edge ", edge, ": its source is not one of ", nodes, " nodes"));
      if (source < before_ || (source == before_ && !duplicates_)) {
        return Broken(path_,
                      absl::StrCat("edge ", edge, ": its source is not above the one before ",
                                   "it of the same target"));
      }
      before_ = source;
    }
    return absl::OkStatus();
  }

 private:
  const std::string& path_;
  const absl::Span<const int64_t> indptr_;
  const bool duplicates_;
  int64_t target_ = 0, before_ = -1;
};

}  // namespace

absl::Span<const uint8_t> GraphFolder::BytesIn(absl::string_view name) const {
  for (const Array& array : arrays_) {
    if (array.name == name) return array.file.bytes().subspan(array.data);
  }
  return {};
}

absl::StatusOr<GraphFolder> GraphFolder::Open(const std::string& path, const Options& options) {
  GraphFolder folder;
  folder.path_ = WithoutTrailingSlashes(path);
  const std::string manifest = JoinPath(folder.path_, kGraphManifestFile);
  const absl::StatusOr<std::string> text = ReadRegularFile(manifest, kGraphManifestBytesMax);
  if (!text.ok()) return WithHint(text.status(), "give a folder that `longhaul graph import` made");
  LH_ASSIGN_OR_RETURN(folder.manifest_, ParseGraphManifest(manifest, *text));
  for (const auto& [name, array] : folder.manifest_.arrays)
    LH_RETURN_IF_ERROR(folder.OpenArray(name, array));
  LH_RETURN_IF_ERROR(CheckIndptr(JoinPath(folder.path_, "indptr.npy"),
                                 folder.Values<int64_t>("indptr"), folder.manifest_.edges));
  if (options.read_all) LH_RETURN_IF_ERROR(folder.ReadAll());
  LH_RETURN_IF_ERROR(folder.Check());
  return folder;
}

absl::Status GraphFolder::OpenArray(const std::string& name, const GraphArray& expected) {
  const std::string path = JoinPath(path_, absl::StrCat(name, ".npy"));
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return Lost(file.status());
  const absl::Span<const uint8_t> bytes = file->bytes();
  LH_ASSIGN_OR_RETURN(const NpyHeader header,
                      ParseNpyHeader(path, {reinterpret_cast<const char*>(bytes.data()),
                                            std::min<size_t>(bytes.size(), kNpyHeaderMax)}));
  if (header.type != expected.type || header.shape != expected.shape) {
    return Broken(path, absl::StrCat("an array ", ShapeText(header.shape), " of ",
                                     NameOf(header.type), "; the manifest has one ",
                                     ShapeText(expected.shape), " of ", NameOf(expected.type)));
  }
  if (const absl::Status size = CheckNpySize(path, header, bytes.size()); !size.ok())
    return Lost(absl::DataLossError(size.message()));
  if (header.data % 16 != 0)
    return Broken(path, absl::StrCat("the array begins at byte ", header.data,
                                     ", which is not a multiple of 16"));
  arrays_.push_back({name, *std::move(file), header.data});
  return absl::OkStatus();
}

absl::Status GraphFolder::ReadAll() const {
  const auto indptr = Values<int64_t>("indptr");
  std::vector<bool> in_a_split(manifest_.nodes);
  for (const Array& array : arrays_) {
    const std::string& path = array.file.path();
    Digester digester;
    absl::Status status;
    const auto nothing = [](int64_t, auto) { return absl::OkStatus(); };
    // Where the values are wrong, the digest says whether they were so at the import.
    if (array.name == "indices" && manifest_.arrays.at("indices").type == NpyType::kInt32) {
      status = CheckPieces(Values<int32_t>("indices"), digester,
                           SourcesCheck<int32_t>(path, indptr, manifest_.duplicates_kept));
    } else if (array.name == "indices") {
      status = CheckPieces(Values<int64_t>("indices"), digester,
                           SourcesCheck<int64_t>(path, indptr, manifest_.duplicates_kept));
    } else if (array.name == "features") {
      status = CheckPieces(
          features(), digester, [&](int64_t first, absl::Span<const float> piece) -> absl::Status {
            // Adding keeps NaN, and makes one of infinities.
            float sum = 0;
            for (const float value : piece) sum += value * 0.0F;
            if (sum == 0) return absl::OkStatus();
            for (size_t i = 0; i < piece.size(); ++i) {
              const int64_t at = first + static_cast<int64_t>(i);
              if (std::isfinite(piece[i])) continue;
              return Broken(path, absl::StrCat("row ", at / columns(), ", column ", at % columns(),
                                               ": not a finite number"));
            }
            return absl::OkStatus();
          });
    } else if (array.name == "labels") {
      int64_t labelled = 0;
      status = CheckPieces(
          labels(), digester, [&](int64_t first, absl::Span<const int32_t> piece) -> absl::Status {
            for (size_t i = 0; i < piece.size(); ++i) {
              if (piece[i] < -1 || piece[i] >= manifest_.classes) {
                return Broken(
                    path, absl::StrCat("row ", first + static_cast<int64_t>(i),
                                       ": neither -1 nor one of ", manifest_.classes, " classes"));
              }
              labelled += piece[i] >= 0;
            }
            return absl::OkStatus();
          });
      if (status.ok() && labelled != manifest_.labelled)
        status = Broken(path, absl::StrCat("the manifest counts ", manifest_.labelled, " labels"));
    } else if (array.name == "train" || array.name == "valid" || array.name == "test") {
      int64_t before = -1;
      status = CheckPieces(
          Values<int64_t>(array.name), digester,
          [&](int64_t first, absl::Span<const int64_t> piece) -> absl::Status {
            for (size_t i = 0; i < piece.size(); ++i) {
              const std::string at = absl::StrCat("element ", first + static_cast<int64_t>(i));
              if (piece[i] < 0 || piece[i] >= nodes())
                return Broken(path, absl::StrCat(at, " is not one of ", nodes(), " nodes"));
              if (piece[i] <= before)
                return Broken(path, absl::StrCat(at, " is not above the one before it"));
              before = piece[i];
              if (in_a_split[before])
                return Broken(path, absl::StrCat(at, " is in another split, too"));
              in_a_split[before] = true;
            }
            return absl::OkStatus();
          });
    } else if (array.name == "train_pairs" || array.name == "valid_pairs" ||
               array.name == "test_pairs") {
      status = CheckPieces(
          Values<NodePair>(array.name), digester,
          [&](int64_t first, absl::Span<const NodePair> piece) -> absl::Status {
            for (size_t i = 0; i < piece.size(); ++i) {
              const auto [source, target] = piece[i];
              const bool in_range =
                  0 <= source && source < nodes() && 0 <= target && target < nodes();
              if (in_range && source != target) continue;
              return Broken(path, absl::StrCat("row ", first + static_cast<int64_t>(i),
                                               in_range ? ": a node with itself"
                                                        : absl::StrCat(": an end is not one of ",
                                                                       nodes(), " nodes")));
            }
            return absl::OkStatus();
          });
    } else if (array.name == "id_ends") {
      int64_t before = 0;
      const auto size = static_cast<int64_t>(Values<uint8_t>("id_bytes").size());
      const auto ends = Values<int64_t>("id_ends");
      status = CheckPieces(
          ends, digester, [&](int64_t first, absl::Span<const int64_t> piece) -> absl::Status {
            for (size_t i = 0; i < piece.size(); ++i) {
              if (piece[i] < before || piece[i] > size) {
                return Broken(path, absl::StrCat("element ", first + static_cast<int64_t>(i),
                                                 " is out of order"));
              }
              before = piece[i];
            }
            return absl::OkStatus();
          });
    } else if (array.name == "id_bytes") {
      status = CheckPieces(Values<uint8_t>("id_bytes"), digester, nothing);
    } else {
      status = CheckPieces(Values<int64_t>(array.name), digester, nothing);
    }
    // A cut file shows zeros: that is the cause.
    LH_RETURN_IF_ERROR(Check());
    LH_RETURN_IF_ERROR(status);
    if (!(digester.Value() == manifest_.arrays.at(array.name).digest)) {
      return Lost(absl::DataLossError(
          absl::StrCat(path, ": its bytes are not those that were imported (digest)")));
    }
  }
  return absl::OkStatus();
}

GraphEdges GraphFolder::edges() const {
  GraphEdges edges{.nodes = nodes(), .indptr = Values<int64_t>("indptr")};
  if (manifest_.arrays.at("indices").type == NpyType::kInt32) {
    edges.sources = Values<int32_t>("indices").data();
  } else {
    edges.wide_sources = Values<int64_t>("indices").data();
  }
  return edges;
}

std::string GraphFolder::IdOf(int64_t node) const {
  LH_CHECK(0 <= node && node < nodes(), "a node of the graph");
  if (manifest_.ids == GraphIds::kNumbers) return absl::StrCat(number_ids()[node]);
  if (manifest_.ids == GraphIds::kNone) return absl::StrCat(node);
  return std::string(TextIdOf(node));
}

absl::string_view GraphFolder::TextIdOf(int64_t node) const {
  const auto ends = Values<int64_t>("id_ends");
  const auto bytes = Values<uint8_t>("id_bytes");
  const auto size = static_cast<int64_t>(bytes.size());
  // Without read_all nobody has compared them.
  const int64_t begin = std::clamp<int64_t>(node == 0 ? 0 : ends[node - 1], 0, size);
  const int64_t end = std::clamp<int64_t>(ends[node], begin, size);
  return {reinterpret_cast<const char*>(bytes.data()) + begin, static_cast<size_t>(end - begin)};
}

absl::Status GraphFolder::Check() const {
  for (const Array& array : arrays_) {
    if (const absl::Status status = array.file.Check(); !status.ok()) return Lost(status);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
