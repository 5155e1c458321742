#include "common/hf/hf_parameters.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/finite.h"
#include "common/base/status_macros.h"
#include "common/hf/bounded_json.h"
#include "common/hf/hf_tokenizer.h"
#include "common/io/file_content.h"
#include "common/io/file_util.h"
#include "common/io/read_only_file.h"
#include "common/safetensors/safetensors_file.h"

namespace longhaul {
namespace {

constexpr char kSingleFile[] = "model.safetensors", kIndexFile[] = "model.safetensors.index.json";
constexpr char kEmbeddings[] = "model.embed_tokens.weight", kOutput[] = "lm_head.weight";
constexpr int64_t kIndexBytesMax = 8 << 20, kCompareElements = 1 << 16;
constexpr size_t kFilesMax = 4096, kNamedMax = 40;

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<std::vector<std::string>> FilesOfIndex(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, kIndexBytesMax));
  LH_RETURN_IF_ERROR(CheckPresent(path, text));
  const auto json = ParseJsonObject(text, kIndexBytesMax);
  if (!json.ok()) return Bad(path, json.status().message());
  if (!json->contains("weight_map") || !(*json)["weight_map"].is_object())
    return Bad(path, "has no weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, value] : (*json)["weight_map"].items()) {
    if (!value.is_string()) return Bad(path, absl::StrCat("'", tensor, "' has no file"));
    const auto name = value.get<std::string>();
    if (!IsPlainFileName(name))
      return Bad(path, absl::StrCat("'", tensor, "' lies outside the folder"));
    names.insert(name);
  }
  if (names.size() > kFilesMax) return Bad(path, "names more than 4096 files");
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
  std::error_code error;
  // Opening a dangling link names its target.
  const auto is_named = [&](const std::string& path) {
    return std::filesystem::exists(path, error) || !DanglingLink(path).empty();
  };
  if (is_named(folder + "/" + kSingleFile)) return std::vector<std::string>{kSingleFile};
  if (is_named(folder + "/" + kIndexFile)) return FilesOfIndex(folder + "/" + kIndexFile);
  return absl::NotFoundError(
      absl::StrCat(folder, ": has neither ", kSingleFile, " nor ", kIndexFile,
                   std::filesystem::exists(folder + "/pytorch_model.bin", error)
                       ? "; it has pytorch_model.bin, which transformers' save_pretrained writes "
                         "again as safetensors"
                       : ""));
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// For example "3 tensors are missing: a, b, c".
void AddNames(const char* what, const std::vector<std::string>& names,
              std::vector<std::string>& sentences) {
  if (names.empty()) return;
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + std::min(names.size(), kNamedMax));
  sentences.push_back(absl::StrCat(
      names.size(), names.size() == 1 ? " tensor " : " tensors ", what, ": ",
      absl::StrJoin(shown, ", "),
      names.size() > kNamedMax ? absl::StrCat(", and ", names.size() - kNamedMax, " more") : ""));
}

class HfParameters : public InitialParameters {
 public:
  struct Source {
    // Within the unit.
    int64_t offset = 0;
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };

  HfParameters(std::vector<std::unique_ptr<SafetensorsFile>> files,
               std::vector<std::vector<Source>> units)
      : files_(std::move(files)), units_(std::move(units)) {}

  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override {
    const int64_t end = offset + static_cast<int64_t>(out.size());
    for (const Source& source : units_[unit]) {
      const StoredTensor& tensor = *source.tensor;
      const int64_t from = std::max(offset, source.offset),
                    to = std::min(end, source.offset + tensor.elements);
      if (from >= to) continue;
      const absl::Span<float> values = out.subspan(from - offset, to - from);
      LH_RETURN_IF_ERROR(source.file->Read(tensor, from - source.offset, values));
      if (!AllFinite(values)) {
        return absl::DataLossError(absl::StrCat(source.file->path(), ": ", tensor.name,
                                                " has values that are not finite"));
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::unique_ptr<SafetensorsFile>> files_;
  // By unit, in the order of their offsets.
  const std::vector<std::vector<Source>> units_;
};

using Stored = absl::flat_hash_map<std::string, HfParameters::Source>;

absl::StatusOr<Stored> StoredIn(const std::string& folder,
                                const std::vector<std::unique_ptr<SafetensorsFile>>& files) {
  Stored stored;
  std::vector<std::string> twice;
  for (const auto& file : files) {
    for (const StoredTensor& tensor : file->header().tensors) {
      if (!stored.try_emplace(tensor.name, HfParameters::Source{0, file.get(), &tensor}).second)
        twice.push_back(tensor.name);
    }
  }
  std::vector<std::string> sentences;
  AddNames("are in several files", twice, sentences);
  if (!sentences.empty()) return Bad(folder, sentences[0]);
  return stored;
}

absl::StatusOr<bool> SameValues(const HfParameters::Source& a, const HfParameters::Source& b) {
  if (a.tensor->shape != b.tensor->shape || !IsModelType(a.tensor->type) ||
      !IsModelType(b.tensor->type))
    return false;
  std::vector<float> of_a, of_b;
  for (int64_t at = 0; at < a.tensor->elements; at += kCompareElements) {
    of_a.resize(std::min(kCompareElements, a.tensor->elements - at));
    of_b.resize(of_a.size());
    LH_RETURN_IF_ERROR(a.file->Read(*a.tensor, at, absl::MakeSpan(of_a)));
    LH_RETURN_IF_ERROR(b.file->Read(*b.tensor, at, absl::MakeSpan(of_b)));
    if (std::memcmp(of_a.data(), of_b.data(), 4 * of_a.size()) != 0) return false;
  }
  return true;
}

// A model that ties its embeddings may be stored with the output's matrix alone: of two names for
// one tensor, writers keep one.
void NameTied(Stored& stored) {
  const auto output = stored.find(kOutput);
  if (output == stored.end() || stored.contains(kEmbeddings)) return;
  const HfParameters::Source source = output->second;
  stored.erase(output);
  stored.emplace(kEmbeddings, source);
}

// A model that ties its embeddings may be stored with the output's beside them. If these differ,
// transformers uses both, whatever config.json says; so it is asked which is meant.
absl::Status CheckTied(const std::string& folder, const Stored& stored) {
  const auto embeddings = stored.find(kEmbeddings), output = stored.find(kOutput);
  if (embeddings == stored.end() || output == stored.end()) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(const bool same, SameValues(embeddings->second, output->second));
  if (same) return absl::OkStatus();
  return Bad(folder, absl::StrCat(kOutput, " differs from ", kEmbeddings,
                                  ", but config.json has tie_word_embeddings: true; set it to "
                                  "false there if the model is to have both"));
}

bool Ties(const ModelLayout& layout) {
  for (const UnitLayout& unit : layout.units) {
    for (const TensorLayout& tensor : unit.tensors) {
      if (tensor.name == kOutput) return false;
    }
  }
  return true;
}

bool MayBeSurplus(absl::string_view name, bool tied) {
  return absl::EndsWith(name, "rotary_emb.inv_freq") || (tied && name == kOutput);
}

absl::StatusOr<std::vector<std::vector<HfParameters::Source>>> SourcesOf(const std::string& folder,
                                                                         const ModelLayout& layout,
                                                                         Stored stored) {
  std::vector<std::vector<HfParameters::Source>> units;
  std::vector<std::string> missing, misshapen, surplus, sentences;
  const bool tied = Ties(layout);
  if (tied) {
    LH_RETURN_IF_ERROR(CheckTied(folder, stored));
    NameTied(stored);
  }
  for (const UnitLayout& unit : layout.units) {
    std::vector<HfParameters::Source>& sources = units.emplace_back();
    for (const TensorLayout& wanted : unit.tensors) {
      const auto found = stored.find(wanted.name);
      if (found == stored.end()) {
        missing.push_back(wanted.name);
        continue;
      }
      const StoredTensor& tensor = *found->second.tensor;
      if (tensor.shape != wanted.shape || !IsModelType(tensor.type)) {
        misshapen.push_back(absl::StrCat(wanted.name, " ", NameOf(tensor.type),
                                         ShapeText(tensor.shape), ", expected F32, BF16 or F16 ",
                                         ShapeText(wanted.shape)));
      }
      sources.push_back({wanted.offset, found->second.file, &tensor});
      stored.erase(found);
    }
  }
  for (const auto& [name, source] : stored) {
    if (!MayBeSurplus(name, tied)) surplus.push_back(name);
  }
  std::sort(surplus.begin(), surplus.end());
  AddNames("missing", missing, sentences);
  AddNames("of another shape or type", misshapen, sentences);
  AddNames("that the model does not have", surplus, sentences);
  if (!sentences.empty()) return Bad(folder, absl::StrJoin(sentences, "; "));
  return units;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> HfFilesOf(const std::string& folder) {
  LH_ASSIGN_OR_RETURN(std::vector<std::string> names, FilesOf(folder));
  std::error_code error;
  if (!std::filesystem::exists(folder + "/" + kSingleFile, error)) names.push_back(kIndexFile);
  names.push_back("config.json");
  // For pools, which read text by it.
  for (std::string& name : TokenizerFilesOf(folder)) names.push_back(std::move(name));
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (const std::string link = DanglingLink(path); !link.empty())
      return absl::NotFoundError(absl::StrCat(path, ": ", link));
  }
  return names;
}

absl::StatusOr<std::unique_ptr<InitialParameters>> OpenHfParameters(const std::string& folder,
                                                                    const ModelLayout& layout) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesOf(folder));
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (const std::string& name : names) {
    LH_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(folder + "/" + name));
    files.push_back(std::make_unique<SafetensorsFile>(std::move(file)));
  }
  LH_ASSIGN_OR_RETURN(Stored stored, StoredIn(folder, files));
  LH_ASSIGN_OR_RETURN(auto units, SourcesOf(folder, layout, std::move(stored)));
  return std::make_unique<HfParameters>(std::move(files), std::move(units));
}

}  // namespace longhaul
