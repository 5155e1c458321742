// Language models: a Llama-style decoder on windows of tokens. Without torch.
#pragma once

#include <string>
#include <vector>

#include "common/layout/model_layout.h"
#include "worker/data/example_plan.h"
#include "worker/data/source.h"
#include "worker/family/open_family.h"

namespace longhaul {

struct WeightedSource {
  SourceOptions source;
  double weight = 1;
};

struct LanguageOptions {
  TransformerShape shape;
  // The pool's ordinal in the job. Pools see different examples.
  int64_t pool = 0;
  std::vector<WeightedSource> sources;
  DataOrder order = DataOrder::kDraws;
  TokenWork token_work;
  // Attention keeps to documents. Every source must then tell where they begin.
  bool separate_documents = false;
  double eval_fraction = 0.05;
};

// Errors of opening it: those of LayOutTransformer, OpenSource and ExamplePlan::Create.
OpenFamily LanguageFamily(LanguageOptions options);

}  // namespace longhaul
