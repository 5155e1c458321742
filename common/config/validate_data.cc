#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/jsonl_line.h"
#include "common/base/nearest_name.h"
#include "common/base/tokenizer_name.h"
#include "common/config/checks.h"
#include "common/config/data_sources.h"
#include "common/config/validate.h"
#include "common/io/file_content.h"
#include "common/io/sha256.h"

namespace longhaul {
namespace {

constexpr int kBytesVocab = 256;
constexpr int kMixtureSourcesMax = 64;
constexpr double kLeastShare = 1.0 / 65536;
constexpr int kPoolsOfDataMax = 4096;
constexpr size_t kFieldNameMax = 256;

// The tokens that mark documents.
template <typename Source>
void RequireMarks(const std::string& field, const Source& source, int least, int vocab,
                  const char* hint, ViolationList& violations) {
  if (source.has_eos())
    RequireInteger(violations, field + ".eos", source.eos(), least, vocab - 1, hint);
  if (source.has_bos())
    RequireInteger(violations, field + ".bos", source.bos(), least, vocab - 1, hint);
}

// What a name tells already; the pools look into the files.
void RequireKind(const std::string& field, const std::string& path,
                 std::initializer_list<FileForm> wrong, ViolationList& violations) {
  const FileContent named = ContentOfName(path);
  if (std::find(wrong.begin(), wrong.end(), named.form) == wrong.end()) return;
  std::string hint = named.hint;
  if (named.form == FileForm::kTable)
    hint = absl::EndsWith(field, ".chat.path")
               ? "write its rows as JSONL, for example with to_json of the package datasets"
               : "make tokens of it with python3 -m longhaul.tokenize --field COLUMN, for "
                 "data.megatron";
  if (named.form == FileForm::kTokenizer) hint = "it is the tokenizer of a source, not its path";
  if (named.form == FileForm::kTokens) hint = "use data.megatron";
  if (named.form == FileForm::kJsonl)
    hint =
        "use data.jsonl, with the field that holds the text; as_is: true of data.text takes the "
        "bytes as they are";
  violations.Invalid(field, absl::StrCat("'", path, "' names ", named.what), hint);
}

// `Source` is TextSource or JsonlSource. `vocab` is that of the model, or 0 if it has none.
template <typename Source>
void ValidateDocuments(const std::string& field, const Source& source, int vocab,
                       ViolationList& violations) {
  RequirePath(violations, field + ".path", source.path());
  if (!source.tokenizer().empty())
    RequirePath(violations, field + ".tokenizer", source.tokenizer());
  if (source.control_tokens() && !MayBeHfTokenizer(source.tokenizer())) {
    violations.Invalid(field + ".control_tokens",
                       "requires a tokenizer.json: a SentencePiece model makes no control tokens "
                       "of text",
                       "name the model's tokenizer.json, or omit control_tokens");
  }
  if (source.control_tokens() &&
      (source.tokenizer().empty() || source.tokenizer() == kByteTokenizer)) {
    violations.Invalid(field + ".control_tokens", "requires a tokenizer: bytes have none",
                       "set tokenizer, or omit control_tokens");
  }
  if (vocab == 0) return;
  const bool bytes = source.tokenizer().empty() || source.tokenizer() == kByteTokenizer;
  if (bytes && vocab < kBytesVocab) {
    violations.Invalid(
        "model.transformer.vocab",
        absl::StrFormat("found %d, expected at least 256 for bytes (%s)", vocab, field));
  }
  RequireMarks(field, source, -1, vocab, "a token below model.transformer.vocab; -1: none",
               violations);
}

void ValidateChat(const std::string& field, const v1::ChatSource& source, bool separate_documents,
                  ViolationList& violations) {
  RequirePath(violations, field + ".path", source.path());
  RequireKind(field + ".path", source.path(),
              {FileForm::kTokenizer, FileForm::kTokens, FileForm::kTable, FileForm::kOther},
              violations);
  if (source.tokenizer().empty()) {
    violations.Invalid(field + ".tokenizer", "is required without model.hf",
                       "set the path of the folder that has the model's tokenizer.json and chat "
                       "template at each site; with model.hf it is that folder's");
  } else if (source.tokenizer() == kByteTokenizer || !MayBeHfTokenizer(source.tokenizer())) {
    violations.Invalid(field + ".tokenizer",
                       absl::StrCat("found '", source.tokenizer(), "', expected a tokenizer.json: ",
                                    "others have no tokens for what a chat template writes"),
                       "name the folder with the model's tokenizer.json and chat template");
  } else {
    RequirePath(violations, field + ".tokenizer", source.tokenizer());
  }
  if (!source.chat_template().empty())
    RequirePath(violations, field + ".chat_template", source.chat_template());
  if (source.pack() && !separate_documents) {
    violations.Invalid(field + ".pack",
                       "requires data.separate_documents: conversations in a row would attend to "
                       "each other",
                       "set data.separate_documents: true, or omit pack");
  }
  if (source.line_mib_max() != 0) {
    RequireInteger(violations, field + ".line_mib_max", source.line_mib_max(), 1, kLineMibMax);
  }
}

// Without a token that marks them, nothing tells the documents of token files.
void ValidateTokens(const std::string& field, const v1::TokenSource& source, int vocab,
                    bool separate_documents, ViolationList& violations) {
  RequirePath(violations, field + ".path", source.path());
  if (vocab != 0)
    RequireMarks(field, source, 0, vocab, "a token below model.transformer.vocab", violations);
  RequireKind(field + ".path", source.path(),
              {FileForm::kJsonl, FileForm::kTokenizer, FileForm::kTokens, FileForm::kTable,
               FileForm::kOther},
              violations);
  if (source.width() != 0 && source.format() == v1::LLMC) {
    violations.Invalid(field + ".width", "does not go with format llmc",
                       "omit it: the header of such a file tells the width");
  } else if (source.width() != 0 && source.width() != 16 && source.width() != 32 &&
             source.width() != 64) {
    violations.Invalid(field + ".width",
                       absl::StrFormat("found %d, expected 16, 32 or 64 bits", source.width()));
  }
  if (source.has_eos() && source.has_bos()) {
    violations.Invalid(field + ".bos", "is set together with eos",
                       "set only one: the token after each document, or the token before it");
  }
  if (separate_documents && !source.has_eos() && !source.has_bos()) {
    violations.Invalid(field + ".eos",
                       "is required with data.separate_documents: nothing else separates the "
                       "documents of token files",
                       "set eos to the token after each document (50256 for GPT-2 in nanoGPT "
                       "files), or bos to the token before each document (llm.c files)");
  }
}

void ValidateSource(const DataSource& of, int vocab, bool separate_documents,
                    ViolationList& violations) {
  const v1::WeightedSource& source = of.source;
  if (source.has_text()) {
    ValidateDocuments(of.field, source.text(), vocab, violations);
    if (!source.text().as_is()) {
      RequireKind(of.field + ".path", source.text().path(),
                  {FileForm::kJsonl, FileForm::kTokenizer, FileForm::kTokens, FileForm::kTable,
                   FileForm::kOther},
                  violations);
    }
  } else if (source.has_jsonl()) {
    ValidateDocuments(of.field, source.jsonl(), vocab, violations);
    RequireKind(of.field + ".path", source.jsonl().path(),
                {FileForm::kTokenizer, FileForm::kTokens, FileForm::kTable, FileForm::kOther},
                violations);
    if (source.jsonl().field().size() > kFieldNameMax) {
      violations.Invalid(of.field + ".field",
                         absl::StrFormat("found a name of %d bytes, expected at most %d",
                                         source.jsonl().field().size(), kFieldNameMax));
    }
    if (source.jsonl().line_mib_max() != 0) {
      RequireInteger(violations, of.field + ".line_mib_max", source.jsonl().line_mib_max(), 1,
                     kLineMibMax);
    }
  } else if (source.has_chat()) {
    ValidateChat(of.field, source.chat(), separate_documents, violations);
  } else if (source.has_tokens()) {
    ValidateTokens(of.field, source.tokens(), vocab, separate_documents, violations);
  } else {
    RequirePath(violations, of.field + ".prefix", source.megatron().prefix());
  }
}

void ValidateMixture(const std::string& field, const v1::MixtureSource& mixture,
                     ViolationList& violations) {
  const std::string list = field + ".mixture.sources";
  if (mixture.sources().empty() || mixture.sources_size() > kMixtureSourcesMax) {
    return violations.Invalid(list, absl::StrFormat("found %d sources, expected 1 to %d",
                                                    mixture.sources_size(), kMixtureSourcesMax));
  }
  double sum = 0;
  for (const v1::WeightedSource& source : mixture.sources()) sum += source.weight();
  for (int i = 0; i < mixture.sources_size(); ++i) {
    const v1::WeightedSource& source = mixture.sources(i);
    const std::string path = absl::StrCat(list, "[", i, "]");
    if (source.source_case() == v1::WeightedSource::SOURCE_NOT_SET)
      violations.Invalid(path, "names no source", "set jsonl, chat, text, tokens or megatron");
    if (!std::isfinite(source.weight()) || source.weight() <= 0 ||
        !(source.weight() >= sum * kLeastShare)) {
      violations.Invalid(
          path + ".weight",
          absl::StrFormat("found %g, expected a number above 0, at least 1/65536 of all weights",
                          source.weight()));
    }
  }
}

void ValidatePoolData(const v1::JobSpec& spec, ViolationList& violations) {
  const auto& pools = spec.data().pools();
  if (pools.size() > kPoolsOfDataMax) {
    return violations.Invalid("data.pools", absl::StrFormat("found %d pools, expected at most %d",
                                                            pools.size(), kPoolsOfDataMax));
  }
  const std::vector<std::string> names(spec.pools().names().begin(), spec.pools().names().end());
  std::set<std::string> seen;
  for (int i = 0; i < pools.size(); ++i) {
    const std::string path = absl::StrCat("data.pools[", i, "]");
    const std::string& name = pools[i].pool();
    RequireName(violations, path + ".pool", name);
    if (!seen.insert(name).second)
      violations.Invalid(path + ".pool", absl::StrCat("found '", name, "' a second time"));
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
      violations.Invalid(path + ".pool", absl::StrCat("'", name, "' is not in pools.names"),
                         NearestNameHint(name, names));
    }
    if (pools[i].source_case() == v1::PoolData::SOURCE_NOT_SET)
      violations.Invalid(path, "names no source",
                         "set jsonl, chat, text, tokens, megatron, mixture or graph");
    if (pools[i].has_mixture()) ValidateMixture(path, pools[i].mixture(), violations);
  }
}

// Whether each pool that may take part has its own source.
bool EachPoolHasData(const v1::JobSpec& spec) {
  if (spec.pools().names().empty()) return false;
  return std::all_of(
      spec.pools().names().begin(), spec.pools().names().end(), [&](const std::string& name) {
        return std::any_of(spec.data().pools().begin(), spec.data().pools().end(),
                           [&](const v1::PoolData& data) { return data.pool() == name; });
      });
}

// What sources with the model's tokenizer need.
void ValidateModelTokenizer(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::DataSpec& data = spec.data();
  for (const auto& [field, digest] :
       {std::pair{"data.model_tokenizer", &data.model_tokenizer()},
        std::pair{"data.model_chat_template", &data.model_chat_template()}}) {
    if (digest->empty() || IsSha256Hex(*digest)) continue;
    violations.Invalid(field, "expected a SHA-256 in 64 lower-case hexadecimal digits",
                       "omit it: `longhaul submit` fills it in");
  }
  const std::vector<std::string> fields = SourcesWithTokenizer(data, kModelTokenizer);
  if (fields.empty() || spec.model().has_hf() || HasKeptTokenizer(spec)) return;
  violations.Invalid(fields.front(),
                     "found 'model', but the job has neither model.hf nor a model to start from "
                     "(init, --from)",
                     "set the path that the tokenizer has at each site, or 'bytes'");
}

}  // namespace

void ValidateData(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::DataSpec& data = spec.data();
  const bool synthetic = spec.model().has_synthetic();
  const int vocab = spec.model().has_transformer() ? spec.model().transformer().vocab() : 0;
  if (data.has_mixture()) ValidateMixture("data", data.mixture(), violations);
  if (data.source_case() == v1::DataSpec::SOURCE_NOT_SET && !synthetic && !EachPoolHasData(spec)) {
    violations.Invalid("data",
                       data.pools().empty() ? "is required"
                                            : "names no source for pools "
                                              "that data.pools does not name",
                       spec.model().has_graph_sage()
                           ? "set data.graph.path, or data.pools for each of pools.names"
                           : "set data.text.path, or data.pools for each of pools.names");
  }
  for (const DataSource& source : AllDataSources(data))
    ValidateSource(source, vocab, data.separate_documents(), violations);
  ValidatePoolData(spec, violations);
  ValidateModelTokenizer(spec, violations);
  const bool graph = spec.model().has_graph_sage();
  if (!graph && (!synthetic || spec.has_data())) {
    RequireNumber(violations, "data.eval_fraction", data.eval_fraction(),
                  {.low = 0, .high = 0.5, .open_low = true});
  }
}

}  // namespace longhaul
