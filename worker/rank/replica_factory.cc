#include "worker/rank/replica_factory.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/base/tokenizer_name.h"
#include "common/config/data_sources.h"
#include "common/config/job_spec.h"
#include "common/hf/hf_config.h"
#include "common/hf/hf_parameters.h"
#include "common/hf/hf_tokenizer.h"
#include "worker/collective/communicator.h"
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

// One evaluation of the outer parameters, and one of the pool's own.
int EvaluationsBeside(const v1::EvaluationSpec& spec) {
  if (!spec.beside_training()) return 0;
  return spec.pools_every_cycles() > 0 ? 2 : 1;
}

absl::StatusOr<std::unique_ptr<Replica>> MakeSynthetic(const ReplicaOptions& options) {
  if (options.communicator != nullptr) {
    return AboutField(kSyntheticField,
                      absl::FailedPreconditionError(absl::StrCat(
                          "this pool has ", options.communicator->size(), " ranks, not one")));
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

AdamWOptions AdamWOf(const v1::AdamWSpec& spec) {
  return {.beta1 = spec.beta1(),
          .beta2 = spec.beta2(),
          .eps = spec.eps(),
          .weight_decay = spec.weight_decay(),
          .moments = spec.moments() == v1::BFLOAT16 ? MomentPrecision::kBfloat16
                                                    : MomentPrecision::kFloat32};
}

OneBitAdamOptions OneBitAdamOf(const v1::InnerOptimizerSpec& spec) {
  const v1::OneBitAdamSpec& onebit = spec.onebit_adam();
  return {.adamw = {.beta1 = onebit.beta1(),
                    .beta2 = onebit.beta2(),
                    .eps = onebit.eps(),
                    .weight_decay = onebit.weight_decay()},
          .freeze_step = onebit.freeze_step(),
          .freeze_ratio = onebit.freeze_ratio(),
          .freeze_not_before = spec.schedule().warmup_steps(),
          .var_update_scaler = onebit.var_update_scaler(),
          .var_freeze_step = onebit.var_freeze_step(),
          .local_step_scaler = onebit.local_step_scaler(),
          .local_step_clipper = onebit.local_step_clipper(),
          .scale = onebit.mean_scale() ? SignScale::kMeanMagnitude : SignScale::kRootMeanSquare,
          .scale_block = onebit.scale_block()};
}

// The inner optimizer's options, and its peak learning rate.
std::pair<OptimizerOptions, double> OptimizerOf(const v1::InnerOptimizerSpec& spec) {
  if (spec.has_onebit_adam()) return {OneBitAdamOf(spec), spec.onebit_adam().lr()};
  if (!spec.has_muon()) return {AdamWOf(spec.adamw()), spec.adamw().lr()};
  const v1::MuonSpec& muon = spec.muon();
  const MuonOptions options{.momentum = muon.momentum(),
                            .weight_decay = muon.weight_decay(),
                            .scaling = muon.scaling() == v1::MATCH_ADAMW ? MuonScaling::kMatchAdamW
                                                                         : MuonScaling::kSpectral,
                            .iterations = muon.iterations() == v1::FLOAT32
                                              ? MuonPrecision::kFloat32
                                              : MuonPrecision::kBfloat16,
                            .adamw = AdamWOf(muon.adamw()),
                            .adamw_rate = muon.adamw().lr() / muon.lr()};
  return {options, muon.lr()};
}

absl::StatusOr<TorchReplica::Options> TorchOptions(const ReplicaOptions& options) {
  const v1::JobSpec& spec = options.spec;
  TorchReplica::Options result;
  const auto [optimizer, peak] = OptimizerOf(spec.inner());
  result.optimizer = optimizer;
  result.shape = ShapeOf(spec.model().transformer());
  result.batch = spec.train().batch();
  result.seed = spec.train().seed();
  result.pool = options.ordinal;
  result.learning_rate = {.peak = peak,
                          .steps = spec.train().steps(),
                          .warmup_steps = spec.inner().schedule().warmup_steps(),
                          .final_fraction = spec.inner().schedule().final_fraction()};
  result.clip_norm = spec.inner().clip_norm();
  LH_ASSIGN_OR_RETURN(result.partition, PartitionOf(spec.partition()));
  if (spec.partition().has_gathers_ahead()) result.gathers_ahead = spec.partition().gathers_ahead();
  result.accumulation = spec.train().accumulation();
  result.recompute = spec.train().activations() == v1::RECOMPUTE;
  result.blocks = spec.train().blocks() == v1::FUSED      ? BlockKind::kFused
                  : spec.train().blocks() == v1::AUTOGRAD ? BlockKind::kAutograd
                                                          : BlockKind::kAuto;
  result.cuda_graphs = spec.train().cuda_graphs();
  const v1::OffloadSpec& offload = spec.offload();
  result.offload = {.optimizer = offload.optimizer(),
                    .parameters = offload.parameters(),
                    .stride = offload.has_stride() ? offload.stride() : -1,
                    .device_share = offload.device_share(),
                    .subgroup_elements = offload.subgroup_elements(),
                    .profile_path = options.update_rates_path};
  for (const DataSource& of : DataSourcesOf(spec.data(), options.pool)) {
    result.sources.push_back(
        {.source = SourceOf(of.source, options), .weight = of.source.weight()});
  }
  result.separate_documents = spec.data().separate_documents();
  result.order = spec.data().order() == v1::EPOCHS ? DataOrder::kEpochs : DataOrder::kDraws;
  result.token_work = {.folder = options.work_dir,
                       .threads = options.threads,
                       .on_wait = options.on_wait,
                       .on_warning = options.on_warning};
  result.eval_fraction = spec.data().eval_fraction();
  result.eval_batches = spec.evaluation().batches();
  result.evaluation_beside = {.evaluations = EvaluationsBeside(spec.evaluation())};
  result.device = spec.train().device() == v1::CUDA ? DeviceKind::kCuda : DeviceKind::kCpu;
  result.device_index = options.local_rank;
  result.precision = spec.train().precision() == v1::BFLOAT16  ? ComputePrecision::kBfloat16
                     : spec.train().precision() == v1::FLOAT32 ? ComputePrecision::kFloat32
                                                               : ComputePrecision::kDefault;
  result.threads = options.threads;
  result.team = options.team;
  result.communicator = options.communicator;
  result.communicator_on_device = options.communicator_on_device;
  result.ranks_of_node = options.ranks_of_node;
  result.trace_path = options.trace_path;
  result.collective_timeout = options.collective_timeout;
  result.patience = options.patience;
  return result;
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

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> MakeReplica(const ReplicaOptions& options) {
  switch (options.spec.model().kind_case()) {
    case v1::ModelSpec::kSynthetic:
      return MakeSynthetic(options);
    case v1::ModelSpec::kTransformer: {
      LH_ASSIGN_OR_RETURN(TorchReplica::Options torch, TorchOptions(options));
      LH_RETURN_IF_ERROR(CheckModelTokenizer(options));
      if (options.spec.model().has_hf()) {
        LH_ASSIGN_OR_RETURN(torch.initial, OpenInitialParameters(options, torch.shape));
      }
      return TorchReplica::Create(torch);
    }
    default:
      return absl::UnimplementedError("model: this worker has only `transformer` and `synthetic`");
  }
}

}  // namespace longhaul
