#include "common/hf/hf_export.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/hf/hf_tokenizer.h"
#include "common/io/file_util.h"
#include "common/io/read_only_file.h"
#include "common/safetensors/safetensors_writer.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

// So many values and their 16-bit forms stay in the cache of a core between the passes.
constexpr int64_t kChunkElements = 1 << 16;
constexpr char kGeneration[] = "generation_config.json";

struct Source {
  int unit = 0;
  const TensorLayout* tensor = nullptr;
};

// The tensors of each file, in the order of the model.
std::vector<std::vector<Source>> Shards(const ModelLayout& layout, const HfExportOptions& options) {
  std::vector<std::vector<Source>> shards(1);
  int64_t bytes = 0;
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    for (const TensorLayout& tensor : layout.units[unit].tensors) {
      const int64_t own = tensor.elements * BytesOf(options.type);
      if (bytes + own > options.file_bytes_max && !shards.back().empty()) {
        shards.emplace_back();
        bytes = 0;
      }
      shards.back().push_back({unit, &tensor});
      bytes += own;
    }
  }
  return shards;
}

std::string FileName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  return absl::StrFormat("model-%05d-of-%05d.safetensors", index + 1, count);
}

absl::Status WriteShard(FileSystem& fs, const InitialParameters& parameters,
                        const std::vector<Source>& sources, ElementType type,
                        const std::string& path) {
  SafetensorsHeader header{.metadata = {{"format", "pt"}}};
  for (const auto& [unit, tensor] : sources) {
    header.tensors.push_back(
        {.name = tensor->name, .type = type, .shape = tensor->shape, .elements = tensor->elements});
  }
  LH_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(&fs, path, header));
  std::vector<float> values;
  std::vector<uint16_t> halves;
  for (const auto& [unit, tensor] : sources) {
    for (int64_t at = 0; at < tensor->elements; at += kChunkElements) {
      values.resize(std::min(kChunkElements, tensor->elements - at));
      LH_RETURN_IF_ERROR(parameters.Read(unit, tensor->offset + at, absl::MakeSpan(values)));
      absl::string_view bytes(reinterpret_cast<const char*>(values.data()), 4 * values.size());
      if (type == ElementType::kBf16) {
        halves.resize(values.size());
        ToBf16(values, halves.data());
        bytes = {reinterpret_cast<const char*>(halves.data()), 2 * halves.size()};
      }
      LH_RETURN_IF_ERROR(writer.Append(bytes));
    }
  }
  return writer.Finish();
}

// The index: the file of each tensor, and the size of all.
std::string IndexOf(const std::vector<std::vector<Source>>& shards, int64_t bytes,
                    int64_t elements) {
  nlohmann::ordered_json json = {
      {"metadata", {{"total_parameters", elements}, {"total_size", bytes}}},
      {"weight_map", nlohmann::ordered_json::object()}};
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const Source& source : shards[i])
      json["weight_map"][source.tensor->name] = FileName(i, shards.size());
  }
  return json.dump(2) + "\n";
}

absl::StatusOr<std::vector<std::string>> Carry(FileSystem& fs, const std::string& like,
                                               const std::string& folder) {
  const std::vector<std::string> carried = TokenizerFilesOf(like);
  for (const std::string& name : carried) {
    LH_ASSIGN_OR_RETURN(const std::string text,
                        ReadRegularFile(JoinPath(like, name), kTokenizerFileBytesMax));
    LH_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, name), text));
  }
  return carried;
}

std::string GenerationConfig(const HfConfig& config) {
  nlohmann::ordered_json json = {{"bos_token_id", nlohmann::ordered_json::parse(config.bos)},
                                 {"eos_token_id", nlohmann::ordered_json::parse(config.eos)},
                                 {"pad_token_id", nlohmann::ordered_json::parse(config.pad)}};
  return json.dump(2) + "\n";
}

absl::StatusOr<HfExport> WriteAll(FileSystem& fs, const ModelLayout& layout,
                                  const InitialParameters& parameters,
                                  const HfExportOptions& options, const std::string& folder) {
  HfExport result;
  HfConfig config = options.config;
  if (!options.like.empty()) {
    LH_ASSIGN_OR_RETURN(result.carried, Carry(fs, options.like, folder));
    // A folder with only a tokenizer has no config.json, or one that does not describe a model.
    if (const absl::StatusOr<HfConfig> like = ReadHfConfig(options.like); like.ok()) {
      if (config.bos == "null") config.bos = like->bos;
      if (config.eos == "null") config.eos = like->eos;
      if (config.pad == "null") config.pad = like->pad;
      // What trained as a Llama layout is exported as what it was.
      config.mistral = like->mistral && DifferencesFrom(*like, config.shape).empty();
    }
  }
  const std::vector<std::vector<Source>> shards = Shards(layout, options);
  for (size_t i = 0; i < shards.size(); ++i) {
    LH_RETURN_IF_ERROR(WriteShard(fs, parameters, shards[i], options.type,
                                  JoinPath(folder, FileName(i, shards.size()))));
  }
  result.files = static_cast<int>(shards.size());
  result.bytes = layout.elements() * BytesOf(options.type);
  if (shards.size() > 1) {
    LH_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, "model.safetensors.index.json"),
                                           IndexOf(shards, result.bytes, layout.elements())));
  }
  if (!options.config_text.empty()) {
    LH_RETURN_IF_ERROR(
        WriteFileAtomically(fs, JoinPath(folder, "config.json"), options.config_text));
    return result;
  }
  LH_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, "config.json"),
                                         WriteHfConfig(config, options.type)));
  if (std::find(result.carried.begin(), result.carried.end(), kGeneration) ==
      result.carried.end()) {
    LH_RETURN_IF_ERROR(
        WriteFileAtomically(fs, JoinPath(folder, kGeneration), GenerationConfig(config)));
  }
  return result;
}

}  // namespace

absl::StatusOr<HfExport> ExportHf(FileSystem& fs, const ModelLayout& layout,
                                  const InitialParameters& parameters,
                                  const HfExportOptions& options, const std::string& folder) {
  const std::string target = WithoutTrailingSlashes(folder);
  const auto there = fs.List(target);
  if (there.ok() && !there->empty())
    return absl::AlreadyExistsError(absl::StrCat(target, ": exists and is not empty"));
  if (!there.ok() && !absl::IsNotFound(there.status()))
    return absl::AlreadyExistsError(absl::StrCat(target, ": exists and is not a folder"));
  const TransformerShape& shape = options.config.shape;
  if (options.config_text.empty() && !shape.qk_norm && shape.dim % shape.heads != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("LlamaForCausalLM of transformers requires a width that is a multiple of the "
                     "heads; this model has dim ",
                     shape.dim, " and heads ", shape.heads));
  }
  std::error_code error;
  if (!options.like.empty() && !std::filesystem::is_directory(options.like, error))
    return absl::InvalidArgumentError(absl::StrCat(options.like, ": is not a folder"));
  const std::string temporary = target + ".tmp";
  // Removes what an interrupted export left.
  LH_RETURN_IF_ERROR(RemoveFolder(fs, temporary));
  absl::Cleanup remove = [&] { (void)RemoveFolder(fs, temporary); };
  LH_RETURN_IF_ERROR(CreateDirs(fs, temporary));
  LH_ASSIGN_OR_RETURN(HfExport result, WriteAll(fs, layout, parameters, options, temporary));
  LH_RETURN_IF_ERROR(fs.SyncDir(temporary));
  LH_RETURN_IF_ERROR(fs.Rename(temporary, target));
  std::move(remove).Cancel();
  LH_RETURN_IF_ERROR(fs.SyncDir(ParentOf(target)));
  return result;
}

}  // namespace longhaul
