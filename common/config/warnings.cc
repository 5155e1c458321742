#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/checked_math.h"
#include "common/base/nearest_name.h"
#include "common/base/tokenizer_name.h"
#include "common/config/data_sources.h"
#include "common/config/job_spec.h"
#include "common/config/validate.h"

namespace longhaul {
namespace {

// Momentum mu averages about 1 / (1 - mu) rounds. In a job with few rounds, old gradients still
// move the parameters when the job ends.
void WarnOfMomentum(const v1::JobSpec& spec, std::vector<std::string>& warnings) {
  const double momentum = spec.sync().outer().momentum();
  const int64_t rounds = spec.train().steps() / spec.sync().h();
  const int64_t needed = momentum >= 0.85 ? 100 : momentum > 0.6 ? 50 : 0;
  if (rounds >= needed) return;
  warnings.push_back(absl::StrFormat(
      "sync.outer.momentum: %g needs rounds: it fits %d or more of each fragment, this job has %d "
      "(train.steps / sync.h); try 0.5",
      momentum, needed, rounds));
}

void WarnOfUplink(const v1::CodecSpec& up, std::vector<std::string>& warnings) {
  if (up.error_feedback() && up.codec() == v1::FP32)
    warnings.push_back("sync.up.error_feedback: codec fp32 loses nothing to feed back");
  if (!up.error_feedback() && (up.codec() == v1::SIGN1 || up.codec() == v1::TOPK2)) {
    warnings.push_back(
        "sync.up.error_feedback: without it most of what sign1 and topk2 leave out is lost for "
        "good");
  }
}

// Jobs with sign1 down and outer momentum were seen to diverge with alpha from 0.9 on, and not with
// 0.5.
void WarnOfMerge(const v1::SyncSpec& sync, std::vector<std::string>& warnings) {
  if (sync.alpha() == 1) {
    warnings.push_back(
        "sync.alpha: 1 keeps only the local parameters: pools never take part in the mean");
  } else if (sync.alpha() >= 0.9 && sync.down().codec() == v1::SIGN1 &&
             sync.outer().momentum() > 0) {
    warnings.push_back(absl::StrFormat(
        "sync.alpha: training may diverge with %g, sync.down.codec sign1 and outer momentum; try "
        "0.5",
        sync.alpha()));
  }
}

// A variance averages about 1 / (1 - beta2) gradients.
void WarnOfFreeze(const v1::JobSpec& spec, std::vector<std::string>& warnings) {
  const v1::OneBitAdamSpec& onebit = spec.inner().onebit_adam();
  if (onebit.freeze_step() == 0) return;
  const auto least = std::llround(1 / (1 - onebit.beta2()));
  const int64_t warm_up = spec.inner().schedule().warmup_steps();
  if (onebit.freeze_step() < warm_up) {
    warnings.push_back(
        absl::StrFormat("inner.onebit_adam.freeze_step: %d is before the learning rate has risen "
                        "(inner.schedule.warmup_steps: %d), while gradients change most",
                        onebit.freeze_step(), warm_up));
  } else if (onebit.freeze_step() < least) {
    warnings.push_back(
        absl::StrFormat("inner.onebit_adam.freeze_step: %d steps are few for a variance that "
                        "averages about %d (1 / (1 - beta2))",
                        onebit.freeze_step(), least));
  }
}

void WarnOfSchedule(const v1::JobSpec& spec, std::vector<std::string>& warnings) {
  if (spec.inner().schedule().warmup_steps() < spec.train().steps()) return;
  warnings.push_back(
      "inner.schedule.warmup_steps: covers all of train.steps: the learning rate ends at its peak "
      "and never falls to inner.schedule.final_fraction");
}

void WarnOfDocuments(const v1::DataSpec& data, std::vector<std::string>& warnings) {
  if (data.separate_documents()) return;
  for (const DataSource& of : AllDataSources(data)) {
    const v1::TokenSource& tokens = of.source.tokens();
    if (!tokens.has_eos() && !tokens.has_bos()) continue;
    warnings.push_back(absl::StrFormat("%s.%s: counts with data.separate_documents only", of.field,
                                       tokens.has_eos() ? "eos" : "bos"));
  }
}

// Bytes are 256 tokens. A larger vocabulary is that of a tokenizer, most likely.
void WarnOfTokenizers(const v1::JobSpec& spec, std::vector<std::string>& warnings) {
  constexpr int kByteVocab = 256;
  const int vocab = spec.model().transformer().vocab();
  const std::vector<std::string> unnamed = SourcesWithTokenizer(spec.data(), "");
  if (spec.model().has_transformer() && vocab > kByteVocab && !unnamed.empty()) {
    warnings.push_back(absl::StrFormat(
        "%s: none is named, so tokens are bytes, 256 of the %d of model.transformer.vocab; name "
        "the tokenizer, or set 'bytes' if that is meant",
        unnamed.front(), vocab));
  }
  const std::vector<std::string> of_model = SourcesWithTokenizer(spec.data(), kModelTokenizer);
  if (of_model.empty() || !spec.data().model_tokenizer().empty()) return;
  warnings.push_back(absl::StrCat(
      of_model.front(),
      ": is that of each site's own folder of model.hf; the sites' tokenizers are not compared, "
      "since the folder does not exist on the machine that submitted the job"));
}

// Each fragment is pushed once in h steps, evenly distributed, and there the ranks synchronise.
void WarnOfLocalSteps(const v1::JobSpec& spec, int fragments, std::vector<std::string>& warnings) {
  const int64_t clipper = spec.inner().onebit_adam().local_step_clipper();
  const int64_t longest = CeilDiv(spec.sync().h(), fragments);
  if (clipper <= longest) return;
  warnings.push_back(
      absl::StrFormat("inner.onebit_adam.local_step_clipper: %d is never reached: the pool's ranks "
                      "synchronise at least every %d steps (sync.h: %d, %d fragments)",
                      clipper, longest, spec.sync().h(), fragments));
}

void WarnOfSynthetic(const v1::JobSpec& spec, std::vector<std::string>& warnings) {
  if (spec.has_data()) warnings.push_back("data: the synthetic model reads none");
  if (spec.sync().has_fragments()) {
    warnings.push_back("sync.fragments: each unit of the synthetic model is a fragment of its own");
  }
  if (spec.partition().has_map() || spec.partition().preset() != "ddp") {
    warnings.push_back("partition: the synthetic model is for pools of one rank");
  }
  const v1::SyntheticModelSpec& model = spec.model().synthetic();
  if (model.inner_delta_size() > 1 && model.inner_delta_size() < spec.pools().min()) {
    warnings.push_back(
        absl::StrFormat("model.synthetic.inner_delta: %d values for at least %d pools",
                        model.inner_delta_size(), spec.pools().min()));
  }
}

void WarnOfGraph(const v1::GraphSageSpec& model, std::vector<std::string>& warnings) {
  if (model.links().keep_targets()) {
    warnings.push_back(
        "model.graph_sage.links.keep_targets: the model reads edges that it is to predict, so its "
        "metrics say nothing of links that are unknown");
  }
  if (model.fanout_size() != 1) return;
  const char* const without_effect = model.normalize()                          ? "normalize"
                                     : model.norm() == v1::GraphSageSpec::LAYER ? "norm"
                                                                                : nullptr;
  if (without_effect == nullptr) return;
  warnings.push_back(absl::StrCat("model.graph_sage.", without_effect,
                                  ": has no effect: it is for hidden layers, and the model has one "
                                  "layer"));
}

// Of `names` as many as are easily read.
std::string SomeNames(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  const size_t shown = std::min(names.size(), kShown);
  std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

}  // namespace

std::string WarningOfPoolNames(const v1::JobSpec& spec, const std::vector<std::string>& pools) {
  const v1::DataSpec& data = spec.data();
  // Names of pools.names were compared already, and the job waits for those.
  if (!spec.pools().names().empty() || data.source_case() == v1::DataSpec::SOURCE_NOT_SET)
    return "";
  std::set<std::string> named;
  for (const v1::PoolData& of_pool : data.pools()) named.insert(of_pool.pool());
  std::vector<std::string> of_default;
  for (const std::string& pool : pools)
    if (named.erase(pool) == 0) of_default.push_back(pool);
  if (named.empty() || of_default.empty()) return "";
  std::string text =
      absl::StrCat("data.pools: no pool is named ", SomeNames({named.begin(), named.end()}),
                   " now, and ", SomeNames(of_default), " would read the default source");
  for (const std::string& name : named) {
    const std::string near = NearestName(name, of_default);
    if (near.empty()) continue;
    absl::StrAppend(&text, "; is '", name, "' meant to be '", near, "'?");
    break;
  }
  return text;
}

std::string WarningOfDocuments(const std::string& field, bool trained_separate,
                               const v1::DataSpec& data) {
  if (trained_separate == data.separate_documents()) return "";
  return absl::StrCat("data.separate_documents: the model of ", field, " was trained ",
                      trained_separate
                          ? "with it, this job joins documents; set it to true"
                          : "without it, in this job attention keeps to documents; leave it out",
                      " to continue as before");
}

std::vector<std::string> WarningsOf(const v1::JobSpec& spec, int fragments) {
  std::vector<std::string> warnings;
  WarnOfMomentum(spec, warnings);
  WarnOfUplink(spec.sync().up(), warnings);
  if (spec.pools().max() != 1) WarnOfMerge(spec.sync(), warnings);
  if (spec.sync().fragments().has_balanced() && spec.sync().fragments().order() != 0) {
    warnings.push_back("sync.fragments.order: counts with sync.fragments.layers only");
  }
  WarnOfSchedule(spec, warnings);
  WarnOfDocuments(spec.data(), warnings);
  WarnOfTokenizers(spec, warnings);
  if (spec.inner().has_onebit_adam()) {
    WarnOfFreeze(spec, warnings);
    WarnOfLocalSteps(spec, fragments, warnings);
  }
  if (spec.model().has_synthetic()) WarnOfSynthetic(spec, warnings);
  if (spec.model().has_graph_sage()) WarnOfGraph(spec.model().graph_sage(), warnings);
  return warnings;
}

}  // namespace longhaul
