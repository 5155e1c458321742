#include "common/checkpoint/initial_folder.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/tokenizer_name.h"
#include "common/checkpoint/checkpoint_folder.h"
#include "common/checkpoint/reader.h"
#include "common/config/data_sources.h"
#include "common/config/hugging_face_spec.h"
#include "common/config/transformer_spec.h"
#include "common/hf/hf_model.h"
#include "common/hf/hf_tokenizer.h"

namespace longhaul {
namespace {

constexpr size_t kModelTextMax = 400;
constexpr int kByteVocab = 256;

using Violations = std::vector<SpecViolation>;

// As `longhaul eval` decides it.
bool IsOfBytes(const std::string& folder, const v1::ModelSpec& spec) {
  return spec.transformer().vocab() == kByteVocab &&
         absl::IsNotFound(TokenizerFile(folder).status());
}

// A source that reads by a tokenizer which is not in the folder.
Violations CheckNoModelTokenizer(const v1::JobSpec& job, absl::string_view why) {
  const std::vector<std::string> fields = SourcesWithTokenizer(job.data(), kModelTokenizer);
  if (fields.empty() || job.model().has_hf()) return {};
  return {{fields.front(), absl::StrCat("found 'model', but ", why),
           "set the path that the tokenizer has at each site, or 'bytes' for a model whose tokens "
           "are bytes"}};
}

// Reads the headers of its files; their values are read when the job begins.
Violations CheckHfFolder(const std::string& folder, const std::string& field,
                         const v1::JobSpec& job) {
  const v1::ModelSpec& spec = job.model();
  if (spec.has_hf()) {
    return {{"model.hf", "every pool would need that folder as well",
             absl::StrCat("leave it out: ", field, " gives the model its shape and parameters")}};
  }
  const absl::StatusOr<HfModel> model = OpenHfModel(folder);
  if (!model.ok()) {
    return {{field, std::string(model.status().message()),
             "the folder is a Hugging Face model's (Llama or Qwen3), as downloaded"}};
  }
  const std::vector<std::string> differences =
      DifferencesFrom(model->config, ShapeOf(spec.transformer()));
  if (const std::vector<std::string> unnamed = SourcesWithTokenizer(job.data(), "");
      differences.empty() && !unnamed.empty() && !IsOfBytes(folder, spec)) {
    return {{unnamed.front(),
             absl::StrCat("is required: the Hugging Face model's folder (", field,
                          ") has neither tokenizer.json nor tokenizer.model"),
             "add the model's tokenizer to the folder, or set the path that it has at each site, "
             "or 'bytes' for a model whose tokens are bytes"}};
  }
  if (differences.empty()) {
    const absl::StatusOr<std::string> tokenizer = TokenizerFile(folder);
    if (tokenizer.ok()) return {};
    return CheckNoModelTokenizer(job, tokenizer.status().message());
  }
  return {{field,
           absl::StrCat("the folder does not fit the model: ", absl::StrJoin(differences, "; ")),
           "omit those fields of model.transformer: the folder defines them"}};
}

// Each pool compares the digest with that of its own folder. `field`: where the spec has it.
Violations TakeDigest(const std::string& field, const std::string& what, const std::string& digest,
                      std::string& known) {
  if (!known.empty() && known != digest) {
    return {{field, absl::StrCat("the ", what, " is another one: ", digest),
             "omit it: `longhaul submit` fills it in"}};
  }
  known = digest;
  return {};
}

Violations TakeTokenizerDigest(const std::string& folder, v1::JobSpec& spec) {
  const std::vector<std::string> fields = SourcesWithTokenizer(spec.data(), kModelTokenizer);
  if (fields.empty()) return {};
  const absl::StatusOr<std::string> digest = DigestOfTokenizer(folder);
  if (!digest.ok()) {
    return {
        {fields.front(), std::string(digest.status().message()),
         "text, JSONL and chat are read by the model's tokenizer: add it to the folder, or name "
         "another one here, or for text 'bytes', if the model's tokens are bytes"}};
  }
  return TakeDigest("data.model_tokenizer", absl::StrCat("tokenizer in ", folder), *digest,
                    *spec.mutable_data()->mutable_model_tokenizer());
}

Violations TakeChatTemplateDigest(const std::string& folder, v1::JobSpec& spec) {
  for (const DataSource& of : AllDataSources(spec.data())) {
    if (!ReadsModelTemplate(of.source)) continue;
    const absl::StatusOr<std::string> digest = DigestOfChatTemplate(folder);
    if (!digest.ok()) {
      return {{of.field, std::string(digest.status().message()),
               absl::StrCat("name a chat template that each site has (", of.field,
                            ".chat_template), or train on text (data.jsonl)")}};
    }
    return TakeDigest("data.model_chat_template", absl::StrCat("chat template in ", folder),
                      *digest, *spec.mutable_data()->mutable_model_chat_template());
  }
  return {};
}

}  // namespace

std::vector<v1::CheckpointTensor> TensorsOf(const ResolvedJob& resolved) {
  std::vector<v1::CheckpointTensor> tensors;
  for (size_t f = 0; f < resolved.fragments.size(); ++f) {
    for (const UnitSpan& span : resolved.fragments[f].units) {
      for (const TensorLayout& layout : resolved.model.units[span.unit].tensors) {
        v1::CheckpointTensor& tensor = tensors.emplace_back();
        tensor.set_name(layout.name);
        tensor.mutable_shape()->Assign(layout.shape.begin(), layout.shape.end());
        tensor.set_fragment(static_cast<int32_t>(f));
        tensor.set_offset(span.offset + layout.offset);
      }
    }
  }
  return tensors;
}

Violations TakeShapeOf(const std::string& folder, const std::string& field, v1::JobSpec& spec) {
  const bool other =
      spec.model().kind_case() != v1::ModelSpec::KIND_NOT_SET && !spec.model().has_transformer();
  if (spec.model().has_hf() || other || !IsHfFolder(folder)) return {};
  const absl::StatusOr<HfConfig> config = ReadHfConfig(folder);
  if (!config.ok()) return {{field, std::string(config.status().message()), ""}};
  return TakeShape(*config, *spec.mutable_model()->mutable_transformer());
}

Violations TakeDataDigests(const std::string& folder, v1::JobSpec& spec) {
  Violations violations = TakeTokenizerDigest(folder, spec);
  return violations.empty() ? TakeChatTemplateDigest(folder, spec) : violations;
}

std::string TokenizerSourceOf(const std::string& folder) {
  return IsHfFolder(folder) ? folder : CheckpointFolder::TokenizerOf(folder);
}

Violations TakeTokenizerOf(const std::string& folder, v1::JobSpec& spec) {
  const std::string source = TokenizerSourceOf(folder);
  if (spec.model().has_hf() || !spec.has_data() || source.empty()) return {};
  // CheckInitialFolder says what is missing.
  if (absl::IsNotFound(TokenizerFile(source).status())) return {};
  NameModelTokenizer(*spec.mutable_data());
  return TakeDataDigests(source, spec);
}

Violations CheckInitialFolder(FileSystem& fs, const std::string& folder, const std::string& field,
                              const ResolvedJob& resolved) {
  if (resolved.spec.model().has_transformer() && IsHfFolder(folder))
    return CheckHfFolder(folder, field, resolved.spec);
  const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(fs, folder);
  if (!manifest.ok()) {
    return {{field, std::string(manifest.status().message()),
             "the folder of a checkpoint contains manifest.json and the files that it lists, a "
             "Hugging Face folder contains config.json"}};
  }
  const std::string differences = TensorDifferences(*manifest, TensorsOf(resolved));
  if (differences.empty()) {
    const absl::Status sizes = CheckFileSizes(fs, folder, *manifest);
    if (sizes.ok() && TokenizerSourceOf(folder).empty())
      return CheckNoModelTokenizer(resolved.spec, "this checkpoint comes without a tokenizer");
    if (sizes.ok()) return {};
    return {{field, std::string(sizes.message()),
             "the copy of the folder is incomplete: copy or download it again"}};
  }
  std::string hint = "a job can only start from a checkpoint of the same model";
  if (manifest->has_model()) {
    absl::StrAppend(&hint, "; the checkpoint's is: ",
                    manifest->model().ShortDebugString().substr(0, kModelTextMax));
  }
  return {{field, absl::StrCat("the checkpoint does not fit the model: ", differences), hint}};
}

std::string WarningOfBeginning(FileSystem& fs, const std::string& folder, const std::string& field,
                               const v1::JobSpec& spec) {
  if (!spec.model().has_transformer()) return "";
  if (IsHfFolder(folder)) {
    const absl::StatusOr<HfConfig> config = ReadHfConfig(folder);
    const bool separate = config.ok() && config->separate_documents;
    return separate ? WarningOfDocuments(field, true, spec.data()) : "";
  }
  const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(fs, folder);
  if (!manifest.ok()) return "";
  return WarningOfDocuments(field, manifest->separate_documents(), spec.data());
}

}  // namespace longhaul
