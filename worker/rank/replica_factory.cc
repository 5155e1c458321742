#include "worker/rank/replica_factory.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/base/tokenizer_name.h"
#include "common/config/data_sources.h"
#include "common/config/graph_sage_spec.h"
#include "common/config/job_spec.h"
#include "common/hf/hf_config.h"
#include "common/hf/hf_parameters.h"
#include "common/hf/hf_tokenizer.h"
#include "worker/collective/communicator.h"
#include "worker/family/graph/graph_family.h"
#include "worker/family/language/language_family.h"
#include "worker/plan/plan_of_spec.h"
#include "worker/rank/fault.h"
#include "worker/replica/synthetic_replica.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

std::string PathBelow(const std::string& folder, const std::string& path) {
  return path.empty() ? "" : (std::filesystem::path(folder) / path).string();
}

std::string ModelFolder(const ReplicaOptions& options) {
  return PathBelow(options.data_dir, options.spec.model().hf().path());
}

// Of the tokenizer `model`.
std::string TokenizerFolder(const ReplicaOptions& options) {
  return options.tokenizer_folder.empty() ? ModelFolder(options) : options.tokenizer_folder;
}

std::string TokenizerPath(const std::string& tokenizer, const ReplicaOptions& options) {
  if (tokenizer == kModelTokenizer) return TokenizerFolder(options);
  return tokenizer == kByteTokenizer ? "" : PathBelow(options.data_dir, tokenizer);
}

// `Documents`: TextSource or JsonlSource.
template <typename Documents>
SourceOptions DocumentsOf(SourceKind kind, const Documents& of, const ReplicaOptions& options) {
  SourceOptions source{.kind = kind,
                       .path = PathBelow(options.data_dir, of.path()),
                       .tokenizer = TokenizerPath(of.tokenizer(), options),
                       .control_tokens = of.control_tokens()};
  if (of.has_eos()) source.eos = of.eos();
  if (of.has_bos()) source.bos = of.bos();
  return source;
}

SourceOptions SourceOf(const v1::WeightedSource& of, const ReplicaOptions& options) {
  const std::string& folder = options.data_dir;
  if (of.has_text()) {
    SourceOptions source = DocumentsOf(SourceKind::kText, of.text(), options);
    source.as_is = of.text().as_is();
    return source;
  }
  if (of.has_chat()) {
    SourceOptions source{.kind = SourceKind::kChat,
                         .path = PathBelow(folder, of.chat().path()),
                         .tokenizer = TokenizerPath(of.chat().tokenizer(), options),
                         .chat_template = PathBelow(folder, of.chat().chat_template()),
                         .pack = of.chat().pack()};
    if (of.chat().line_mib_max() > 0)
      source.line_bytes_max = int64_t{of.chat().line_mib_max()} << 20;
    return source;
  }
  if (of.has_megatron()) {
    return {.kind = SourceKind::kMegatron, .path = PathBelow(folder, of.megatron().prefix())};
  }
  if (of.has_tokens()) {
    const bool llmc = of.tokens().format() == v1::LLMC;
    SourceOptions source{.kind = llmc ? SourceKind::kLlmc : SourceKind::kNanoGpt,
                         .path = PathBelow(folder, of.tokens().path()),
                         .width = of.tokens().width()};
    if (of.tokens().has_eos()) source.eos = of.tokens().eos();
    if (of.tokens().has_bos()) source.bos = of.tokens().bos();
    return source;
  }
  SourceOptions source = DocumentsOf(SourceKind::kJsonl, of.jsonl(), options);
  source.field = of.jsonl().field();
  if (of.jsonl().null_rows() == v1::JsonlSource::SKIP) source.null_rows = NullRows::kSkip;
  if (of.jsonl().line_mib_max() > 0)
    source.line_bytes_max = int64_t{of.jsonl().line_mib_max()} << 20;
  return source;
}

absl::StatusOr<std::unique_ptr<Replica>> MakeSynthetic(const ReplicaOptions& options) {
  const Communicator* const ranks = options.site.link.communicator;
  if (ranks != nullptr) {
    return AboutField(kSyntheticField, absl::FailedPreconditionError(absl::StrCat(
                                           "this pool has ", ranks->size(), " ranks, not one")));
  }
  const v1::SyntheticModelSpec& model = options.spec.model().synthetic();
  SyntheticReplica::Options result{
      .units = model.units(),
      .elements = model.elements(),
      .initial = model.initial(),
      .evaluations_beside = EvaluationsBeside(options.spec.evaluation())};
  if (const int count = model.inner_delta_size(); count > 0) {
    result.inner_delta = model.inner_delta(std::min(options.ordinal, count - 1));
  }
  return SyntheticReplica::Create(result);
}

LanguageOptions LanguageOf(const ReplicaOptions& options) {
  const v1::DataSpec& data = options.spec.data();
  LanguageOptions language{
      .shape = ShapeOf(options.spec.model().transformer()),
      .pool = options.ordinal,
      .order = data.order() == v1::EPOCHS ? DataOrder::kEpochs : DataOrder::kDraws,
      .token_work = {.folder = options.work_dir,
                     .threads = options.site.threads,
                     .on_wait = options.on_wait,
                     .on_warning = options.on_warning},
      .separate_documents = data.separate_documents(),
      .eval_fraction = data.eval_fraction()};
  for (const DataSource& of : DataSourcesOf(data, options.pool)) {
    language.sources.push_back(
        {.source = SourceOf(of.source, options), .weight = of.source.weight()});
  }
  return language;
}

// Adds the field of the spec to errors.
class HfInitialParameters : public InitialParameters {
 public:
  explicit HfInitialParameters(std::unique_ptr<InitialParameters> stored)
      : stored_(std::move(stored)) {}
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override {
    const absl::Status read = stored_->Read(unit, offset, out);
    if (read.ok()) return read;
    return AboutField(kHuggingFaceField, read);
  }

 private:
  const std::unique_ptr<InitialParameters> stored_;
};

// Opens the initial parameters of model.hf. All its error codes mean that the site must change
// something, also if the files do not fit the spec: that is not a fault of the job.
absl::StatusOr<std::shared_ptr<const InitialParameters>> OpenInitialParameters(
    const ReplicaOptions& options, const TransformerShape& shape) {
  const std::string folder = ModelFolder(options);
  const auto in_field = [](const absl::Status& status) {
    return AboutField(kHuggingFaceField, absl::IsUnimplemented(status)
                                             ? absl::FailedPreconditionError(status.message())
                                             : status);
  };
  const absl::StatusOr<HfConfig> config = ReadHfConfig(folder);
  if (!config.ok()) return in_field(config.status());
  const std::vector<std::string> differences = DifferencesFrom(*config, shape);
  if (!differences.empty()) {
    return in_field(absl::FailedPreconditionError(
        absl::StrCat(folder, " is not of the job's model: ", absl::StrJoin(differences, "; "))));
  }
  if (config->separate_documents && options.on_warning) {
    const std::string warning =
        WarningOfDocuments(kHuggingFaceField, /*trained_separate=*/true, options.spec.data());
    if (!warning.empty()) options.on_warning({kModelDocuments, warning});
  }
  LH_ASSIGN_OR_RETURN(const ModelLayout layout, LayOutTransformer(shape));
  absl::StatusOr<std::unique_ptr<InitialParameters>> parameters = OpenHfParameters(folder, layout);
  if (!parameters.ok()) return in_field(parameters.status());
  return std::make_shared<const HfInitialParameters>(*std::move(parameters));
}

// Sites with other tokenizers or chat templates would train one model on numbers that mean other
// texts.
absl::Status CheckModelTokenizer(const ReplicaOptions& options) {
  const v1::DataSpec& data = options.spec.data();
  const std::vector<DataSource> sources = DataSourcesOf(data, options.pool);
  const auto compare = [&](const std::string& submitted, bool (*reads)(const v1::WeightedSource&),
                           absl::StatusOr<std::string> (*digest_of)(const std::string&),
                           absl::string_view what) {
    if (submitted.empty() || std::none_of(sources.begin(), sources.end(),
                                          [&](const DataSource& of) { return reads(of.source); }))
      return absl::OkStatus();
    const absl::StatusOr<std::string> here = digest_of(TokenizerFolder(options));
    if (!here.ok()) return MarkTokenizer(here.status());
    if (*here == submitted) return absl::OkStatus();
    return MarkTokenizer(absl::FailedPreconditionError(
        absl::StrCat(TokenizerFolder(options), ": its ", what,
                     " is not that of the folder with which the job was submitted")));
  };
  LH_RETURN_IF_ERROR(compare(
      data.model_tokenizer(),
      [](const v1::WeightedSource& of) { return TokenizerOfSource(of) == kModelTokenizer; },
      &DigestOfTokenizer, "tokenizer, or the end token that it declares,"));
  return compare(data.model_chat_template(), &ReadsModelTemplate, &DigestOfChatTemplate,
                 "chat template, or a special token that it names,");
}

absl::StatusOr<std::unique_ptr<Replica>> MakeLanguageModel(const ReplicaOptions& options) {
  TorchReplica::Options torch{.site = options.site};
  LH_ASSIGN_OR_RETURN(torch.plan, PlanOf(options.spec));
  torch.plan.offload.profile_path = options.update_rates_path;
  LH_RETURN_IF_ERROR(CheckModelTokenizer(options));
  LanguageOptions language = LanguageOf(options);
  if (options.spec.model().has_hf()) {
    LH_ASSIGN_OR_RETURN(torch.initial, OpenInitialParameters(options, language.shape));
  }
  torch.family = LanguageFamily(std::move(language));
  return TorchReplica::Create(torch);
}

std::optional<FeatureAccess> AccessOf(v1::GraphSource::Access access) {
  switch (access) {
    case v1::GraphSource::DEVICE:
      return FeatureAccess::kDevice;
    case v1::GraphSource::HOST:
      return FeatureAccess::kHost;
    case v1::GraphSource::ZERO_COPY:
      return FeatureAccess::kZeroCopy;
    case v1::GraphSource::MAPPED:
      return FeatureAccess::kMapped;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::unique_ptr<Replica>> MakeGraphModel(const ReplicaOptions& options) {
  TorchReplica::Options torch{.site = options.site};
  LH_ASSIGN_OR_RETURN(torch.plan, PlanOf(options.spec));
  torch.plan.offload.profile_path = options.update_rates_path;
  const GraphData data = GraphDataOf(options.spec.data(), options.pool);
  GraphOptions graph{.shape = ShapeOf(options.spec.model().graph_sage()),
                     .pool = options.ordinal,
                     .field = data.field,
                     .path = PathBelow(options.data_dir, data.source.path()),
                     .training_edges = data.source.edges() == v1::GraphSource::TRAINING,
                     .schema = options.spec.data().graph_schema(),
                     .threads = options.site.threads,
                     .on_warning = options.on_warning};
  graph.features = {.access = AccessOf(data.source.access()),
                    .cache_bytes = data.source.cache_mib() << 20};
  if (options.spec.model().graph_sage().has_links()) {
    const v1::LinkTask& links = options.spec.model().graph_sage().links();
    graph.links = LinkOptions{.negatives = links.negatives(),
                              .eval_negatives = links.eval_negatives(),
                              .keep_targets = links.keep_targets()};
  }
  torch.family = GraphFamily(std::move(graph));
  return TorchReplica::Create(torch);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> MakeReplica(const ReplicaOptions& options) {
  switch (options.spec.model().kind_case()) {
    case v1::ModelSpec::kSynthetic:
      return MakeSynthetic(options);
    case v1::ModelSpec::kTransformer:
      return MakeLanguageModel(options);
    case v1::ModelSpec::kGraphSage:
      return MakeGraphModel(options);
    default:
      return absl::UnimplementedError(
          "model: this worker has only `transformer`, `graph_sage` and `synthetic`");
  }
}

}  // namespace longhaul
