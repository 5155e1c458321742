#include "worker/family/language/language_family.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/data_sample.h"
#include "worker/data/token_batches.h"
#include "worker/engine/torch_status.h"
#include "worker/family/family.h"
#include "worker/family/language/language_stager.h"
#include "worker/kernels/cuda/block_kernels.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

absl::Status OpenData(const LanguageOptions& options, const FamilyContext& context,
                      Family& family) {
  std::vector<std::unique_ptr<Dataset>> datasets;
  std::vector<ExamplePlan::Source> planned;
  for (auto [source, weight] : options.sources) {
    source.documents = options.separate_documents;
    source.row_tokens = options.shape.context + 1;
    LH_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                        OpenSource(source, options.shape.vocab, options.token_work));
    planned.push_back({.name = source.path,
                       .tokens = dataset->tokens(),
                       .weight = weight,
                       .row = dataset->row()});
    family.partial_loss = family.partial_loss || dataset->masked();
    LH_ASSIGN_OR_RETURN(const uint64_t sample, SampleOf(*dataset));
    family.data.push_back({.path = source.path, .units = dataset->tokens(), .sample = sample});
    datasets.push_back(std::move(dataset));
  }
  LH_ASSIGN_OR_RETURN(const ExamplePlan plan,
                      ExamplePlan::Create({.sources = std::move(planned),
                                           .order = options.order,
                                           .context = options.shape.context,
                                           .batch = context.plan.batch,
                                           .eval_fraction = options.eval_fraction,
                                           .seed = context.plan.seed,
                                           .pool = options.pool}));
  const TokenBatches::Options share = {.context = options.shape.context,
                                       .batch = context.plan.batch,
                                       .rank = context.rank,
                                       .ranks = context.ranks,
                                       .separate_documents = options.separate_documents};
  family.maker = std::make_unique<TokenBatches>(share, std::move(datasets), plan);
  return absl::OkStatus();
}

absl::StatusOr<Family> Open(const LanguageOptions& options, const FamilyContext& context) {
  LH_RETURN_IF_ERROR(LayOutTransformer(options.shape).status());
  Family family{.unit_name = "tokens", .units = context.plan.batch * options.shape.context};
  LH_RETURN_IF_ERROR(OpenData(options, context, family));
  const BlockKernels* kernels = nullptr;
  if (context.device.is_cuda() && context.plan.blocks == Blocks::kAuto) {
    LH_ASSIGN_OR_RETURN(kernels, LoadCudaBlockKernels());
  }
  LH_ASSIGN_OR_RETURN(family.model, TransformerLm::Create(options.shape, context.device, kernels));
  for (auto* const stager : {&family.stager, &family.stager_beside})
    *stager = std::make_unique<LanguageStager>(options.shape.context, context.device);
  if (options.separate_documents)
    absl::StrAppend(&family.description, "; attention keeps to documents");
  if (family.partial_loss)
    absl::StrAppend(&family.description, "; the loss is on what the assistant wrote");
  return family;
}

}  // namespace

OpenFamily LanguageFamily(LanguageOptions options) {
  return [options = std::move(options)](const FamilyContext& context) {
    return CatchTorch("preparing the model", [&] { return Open(options, context); });
  };
}

}  // namespace longhaul
