#include "common/config/defaults.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/config/data_sources.h"
#include "common/config/model_kinds.h"
#include "common/config/optimizer_kinds.h"

namespace longhaul {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

using Default = FieldDefault;

constexpr Default kDefaults[] = {
    {"model.transformer.vocab", "256"},
    {"model.transformer.rope_theta", "10000"},
    {"model.transformer.norm_eps", "1e-5"},
    {"model.graph_sage.hidden", "256"},
    {"model.graph_sage.aggregator", "MEAN"},
    {"model.graph_sage.dropout", "0.5"},
    {"model.graph_sage.norm", "NONE"},
    {"data.eval_fraction", "0.05"},
    {"data.order", "DRAWS"},
    {"train.device", "CPU"},
    {"train.accumulation", "1"},
    {"train.activations", "KEEP"},
    {"train.blocks", "AUTO"},
    {"inner.schedule.final_fraction", "0.05"},
    {"inner.clip_norm", "1"},
    {"partition.preset", "ddp"},
    {"sync.mode", "LOCKSTEP"},
    {"sync.h", "30"},
    {"sync.alpha", "0.5"},
    {"sync.up.codec", "E3M0"},
    {"sync.down.codec", "E3M0"},
    {"sync.final_round", "true"},
    {"pools.min", "1"},
    {"pools.max", "64"},
    {"checkpoint.every_cycles", "10"},
    {"checkpoint.keep", "3"},
    {"evaluation.every_cycles", "1"},
    {"evaluation.batches", "8"},
    {"guard.on_divergence", "PAUSE"},
    {"guard.after_seconds", "20"},
};

// What graphs have in place of these defaults.
constexpr Default kOfGraphs[] = {
    {"data.order", "EPOCHS"},
    {"evaluation.batches", "1"},
};

bool HasLlama3(const v1::JobSpec& spec) {
  return spec.model().transformer().rope_scaling().has_llama3();
}
bool HasLinks(const v1::JobSpec& spec) { return spec.model().graph_sage().has_links(); }
bool HasLocalSteps(const v1::JobSpec& spec) {
  return spec.inner().onebit_adam().local_step_scaler() != 0;
}
bool LeavesOut(const v1::JobSpec& spec) { return spec.guard().outer() == v1::LEAVE_OUT; }
bool OffloadsOptimizer(const v1::JobSpec& spec) { return spec.offload().optimizer(); }

// Defaults that are filled in only where another field says that they mean something.
struct ConditionalDefault {
  Default entry;
  bool (*applies)(const v1::JobSpec&);
};

constexpr ConditionalDefault kConditional[] = {
    {{"model.transformer.rope_scaling.llama3.low_freq_factor", "1"}, HasLlama3},
    {{"model.transformer.rope_scaling.llama3.high_freq_factor", "4"}, HasLlama3},
    {{"model.transformer.rope_scaling.llama3.original_context", "8192"}, HasLlama3},
    {{"model.graph_sage.links.negatives", "1"}, HasLinks},
    {{"model.graph_sage.links.eval_negatives", "1000"}, HasLinks},
    {{"model.graph_sage.links.score", "DOT"}, HasLinks},
    {{"inner.onebit_adam.local_step_clipper", "16"}, HasLocalSteps},
    {{"offload.subgroup_elements", "4194304"}, OffloadsOptimizer},
    {{"guard.outer_norm", "10"}, LeavesOut},
    {{"guard.outer_rounds", "5"}, LeavesOut},
};

// Where fields without presence have their values from that FillComputed fills in, in words: zero
// is not their value.
constexpr Default kComputed[] = {
    {"model.transformer.kv_heads", "that of heads"},
    {"model.transformer.head_dim", "dim / heads"},
    {"model.transformer.positions", "that of context"},
    {"model.graph_sage.layers", "as many as fanout has numbers"},
    {"model.graph_sage.fanout", "15, 10"},
    {"sync.quorum.pools", "that of pools.min"},
    // Not filled in: an earlier version would quarantine a job with a field that it does not know.
    {"guard.outer", "TAKE_ALL"},
    {"guard.outer_cosine", "0.5, or -1 with pools.max of 2"},
    {"evaluation.pools_every_cycles", "that of evaluation.every_cycles"},
};

void SetField(Message& message, const FieldDescriptor& field, absl::string_view text) {
  const Reflection& reflection = *message.GetReflection();
  const std::string value(text);
  bool ok = true;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t number = 0;
      ok = absl::SimpleAtoi(text, &number);
      reflection.SetInt32(&message, &field, number);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t number = 0;
      ok = absl::SimpleAtoi(text, &number);
      reflection.SetInt64(&message, &field, number);
      break;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number = 0;
      ok = absl::SimpleAtod(text, &number);
      reflection.SetDouble(&message, &field, number);
      break;
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field, text == "true");
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, &field, value);
      break;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* named = field.enum_type()->FindValueByName(value);
      LH_CHECK(named != nullptr, "the table of defaults names an unknown enum value");
      reflection.SetEnum(&message, &field, named);
      break;
    }
    default:
      ok = false;
  }
  LH_CHECK(ok, "the table of defaults holds an ill-typed value");
}

// Sets the field at `path`, except if it is set already, or if it belongs to a member of a oneof
// that is not chosen.
void Fill(Message& root, const Default& entry) {
  Message* message = &root;
  const std::vector<std::string> names = absl::StrSplit(entry.path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(names[i]);
    LH_CHECK(field != nullptr, "the table of defaults names an unknown field");
    const Reflection& reflection = *message->GetReflection();
    const bool set = reflection.HasField(*message, field);
    if (i + 1 == names.size()) {
      const auto* oneof = field->real_containing_oneof();
      const bool other = oneof != nullptr && reflection.HasOneof(*message, oneof);
      if (!set && !other) SetField(*message, *field, entry.value);
      return;
    }
    if (!set && field->real_containing_oneof() != nullptr) return;
    message = reflection.MutableMessage(message, field);
  }
}

void FillOuterOptimizer(v1::JobSpec& spec) {
  // With few rounds a momentum of 0.9 never becomes effective (its time constant is 10 rounds).
  const bool many_rounds = spec.train().steps() / std::max<int64_t>(1, spec.sync().h()) >= 100;
  v1::OuterOptimizerSpec& outer = *spec.mutable_sync()->mutable_outer();
  if (!outer.has_lr()) outer.set_lr(many_rounds ? 0.4 : 0.7);
  if (!outer.has_momentum()) outer.set_momentum(many_rounds ? 0.9 : 0.5);
}

// 0: its sizes do not fit each other.
int LayersOf(const v1::ModelSpec& model) {
  const absl::StatusOr<ModelLayout> layout = ModelKindOf(model)->lay_out(model);
  if (!layout.ok()) return 0;
  return static_cast<int>(
      absl::c_count_if(layout->units, [](const UnitLayout& unit) { return unit.layer >= 0; }));
}

void FillFragments(v1::JobSpec& spec) {
  // Each vector of the synthetic model is a fragment.
  if (!Trains(spec.model())) return;
  v1::FragmentsSpec& fragments = *spec.mutable_sync()->mutable_fragments();
  if (fragments.kind_case() == v1::FragmentsSpec::KIND_NOT_SET)
    fragments.set_balanced(std::clamp(LayersOf(spec.model()), 1, 3));
  if (fragments.has_layers() && fragments.order() == v1::LAYER_ORDER_UNSPECIFIED) {
    fragments.set_order(v1::STRIDED);
  }
}

void FillQuorum(v1::JobSpec& spec) {
  if (spec.sync().mode() != v1::QUORUM) return;
  v1::QuorumSpec& quorum = *spec.mutable_sync()->mutable_quorum();
  if (quorum.pools() == 0) quorum.set_pools(spec.pools().min());
  if (!quorum.has_grace_seconds()) quorum.set_grace_seconds(30);
}

void FillCodec(v1::CodecSpec& spec) {
  const v1::Codec codec = spec.codec();
  if (!spec.has_error_feedback()) spec.set_error_feedback(codec == v1::SIGN1 || codec == v1::TOPK2);
  if (!spec.has_feedback_decay())
    spec.set_feedback_decay(codec == v1::TOPK2 && spec.error_feedback() ? 0.95 : 1);
}

void FillWeightDecay(v1::JobSpec& spec) {
  const double decay = 1.0 / static_cast<double>(std::max<int64_t>(1, spec.train().steps()));
  v1::InnerOptimizerSpec& inner = *spec.mutable_inner();
  if (inner.kind_case() != v1::InnerOptimizerSpec::KIND_NOT_SET)
    OptimizerKindOf(inner).fill_weight_decay(inner, decay);
}

// Fills in defaults that depend on other fields.
void FillComputed(v1::JobSpec& spec) {
  if (const ModelKind* const kind = ModelKindOf(spec.model()); kind != nullptr)
    kind->fill(*spec.mutable_model());
  if (spec.train().precision() == v1::PRECISION_UNSPECIFIED) {
    const bool narrow = spec.train().device() == v1::CUDA && !spec.model().has_graph_sage();
    spec.mutable_train()->set_precision(narrow ? v1::BFLOAT16 : v1::FLOAT32);
  }
  if (spec.has_data()) FillDataSources(*spec.mutable_data());
  FillWeightDecay(spec);
  if (LeavesOut(spec) && spec.guard().outer_cosine() == 0)
    spec.mutable_guard()->set_outer_cosine(spec.pools().max() == 2 ? -1 : 0.5);
  v1::EvaluationSpec& evaluation = *spec.mutable_evaluation();
  if (evaluation.pools_every_cycles() == 0)
    evaluation.set_pools_every_cycles(evaluation.every_cycles());
  if (!spec.sync().has_tau()) {
    spec.mutable_sync()->set_tau(std::clamp<int64_t>(spec.sync().h() - 1, 0, 1));
  }
  v1::CodecSpec& down = *spec.mutable_sync()->mutable_down();
  // ValidateDownlink requires it.
  if (!down.has_error_feedback()) down.set_error_feedback(true);
  FillCodec(*spec.mutable_sync()->mutable_up());
  FillCodec(down);
  FillFragments(spec);
  FillQuorum(spec);
  FillOuterOptimizer(spec);
}

}  // namespace

void FillDefaults(v1::JobSpec& spec) {
  if (spec.inner().kind_case() == v1::InnerOptimizerSpec::KIND_NOT_SET) {
    spec.mutable_inner()->mutable_adamw();
  }
  if (spec.pools().max() == 0 && spec.pools().min() > 64) {
    spec.mutable_pools()->set_max(std::min(spec.pools().min(), 4096));
  }
  for (const Default& entry : kDefaults) {
    const bool reads_data = spec.has_data() || !spec.model().has_synthetic();
    if (absl::StartsWith(entry.path, "data.") && !reads_data) continue;
    // A graph has validation nodes, and is read in epochs.
    if (spec.model().has_graph_sage() && entry.path == "data.eval_fraction") continue;
    const auto* const of_graphs =
        std::find_if(std::begin(kOfGraphs), std::end(kOfGraphs),
                     [&](const Default& other) { return other.path == entry.path; });
    Fill(spec,
         spec.model().has_graph_sage() && of_graphs != std::end(kOfGraphs) ? *of_graphs : entry);
  }
  for (const OptimizerKind& kind : OptimizerKinds()) {
    for (const Default& entry : kind.defaults) Fill(spec, entry);
  }
  for (const ConditionalDefault& conditional : kConditional) {
    if (conditional.applies(spec)) Fill(spec, conditional.entry);
  }
  FillComputed(spec);
}

absl::string_view DefaultOf(absl::string_view path) {
  for (const absl::Span<const Default> table :
       {absl::MakeSpan(kDefaults), absl::MakeSpan(kComputed)}) {
    for (const Default& entry : table) {
      if (entry.path == path) return entry.value;
    }
  }
  for (const OptimizerKind& kind : OptimizerKinds()) {
    for (const Default& entry : kind.defaults) {
      if (entry.path == path) return entry.value;
    }
  }
  for (const ConditionalDefault& conditional : kConditional) {
    if (conditional.entry.path == path) return conditional.entry.value;
  }
  return "";
}

}  // namespace longhaul
