#include "coordinator/cli/hugging_face_model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/tokenizer_name.h"
#include "common/config/data_sources.h"
#include "common/config/hugging_face_spec.h"
#include "common/hf/hf_config.h"
#include "common/hf/hf_model.h"
#include "common/hf/hf_tokenizer.h"
#include "common/io/file_content.h"

namespace longhaul::cli {
namespace {

constexpr char kField[] = "model.hf.path";

// Which tokenizer the folder has: each pool compares it with its own.
std::vector<SpecViolation> TakeTokenizer(const std::string& folder, v1::JobSpec& spec) {
  const std::vector<std::string> fields = SourcesWithTokenizer(spec.data(), kModelTokenizer);
  if (fields.empty()) return {};
  const absl::StatusOr<std::string> digest = DigestOfTokenizer(folder);
  if (!digest.ok()) {
    return {
        {fields.front(), std::string(digest.status().message()),
         "text, JSONL and chat are read by the model's tokenizer: add it to the folder, or name "
         "another one here, or for text 'bytes', if the model's tokens are bytes"}};
  }
  std::string& known = *spec.mutable_data()->mutable_model_tokenizer();
  if (!known.empty() && known != *digest) {
    return {{"data.model_tokenizer",
             absl::StrCat("the tokenizer in ", folder, " is another one: ", *digest),
             "omit it: `longhaul submit` fills it in"}};
  }
  known = *digest;
  return {};
}

// The same for the chat template.
std::vector<SpecViolation> TakeChatTemplate(const std::string& folder, v1::JobSpec& spec) {
  for (const DataSource& of : AllDataSources(spec.data())) {
    if (!ReadsModelTemplate(of.source)) continue;
    const absl::StatusOr<std::string> digest = DigestOfChatTemplate(folder);
    if (!digest.ok()) {
      return {{of.field, std::string(digest.status().message()),
               absl::StrCat("name a chat template that each site has (", of.field,
                            ".chat_template), or train on text (data.jsonl)")}};
    }
    std::string& known = *spec.mutable_data()->mutable_model_chat_template();
    if (!known.empty() && known != *digest) {
      return {{"data.model_chat_template",
               absl::StrCat("the chat template in ", folder, " is another one: ", *digest),
               "omit it: `longhaul submit` fills it in"}};
    }
    known = *digest;
    return {};
  }
  return {};
}

}  // namespace

std::vector<SpecViolation> ResolveHuggingFaceModel(v1::JobSpec& spec) {
  v1::ModelSpec& model = *spec.mutable_model();
  if (!model.has_hf() || model.hf().path().empty() ||
      (model.kind_case() != v1::ModelSpec::KIND_NOT_SET && !model.has_transformer())) {
    return {};  // ResolveJobSpec refuses it.
  }
  FillTokenizers(spec);
  const absl::StatusOr<HfConfig> config = ReadHfConfig(model.hf().path());
  const bool dangling = !DanglingLink(absl::StrCat(model.hf().path(), "/config.json")).empty();
  if (absl::IsNotFound(config.status()) && !dangling) {
    // ResolveJobSpec names what else is missing.
    if (model.transformer().layers() != 0 || !model.transformer().size().empty()) return {};
    const std::string hub = HubHint(model.hf().path());
    return {{kField, absl::StrCat("no config.json in ", model.hf().path(), " on this machine"),
             !hub.empty() ? hub
                          : "submit from a machine that has the folder, or write "
                            "model.transformer in the spec"}};
  }
  if (!config.ok()) return {{kField, std::string(config.status().message()), ""}};
  std::vector<SpecViolation> violations = TakeShape(*config, *model.mutable_transformer());
  if (violations.empty()) violations = TakeTokenizer(model.hf().path(), spec);
  return violations.empty() ? TakeChatTemplate(model.hf().path(), spec) : violations;
}

}  // namespace longhaul::cli
