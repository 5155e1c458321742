#include "tests/conformance/model/model_suite.h"
#include "tests/testing/bigram_model.h"
#include "tests/testing/emulated_block_kernels.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

std::unique_ptr<Model> MakeDecoder(bool special, const BlockKernels* kernels = nullptr) {
  return TransformerLm::Create({.layers = 2,
                                .dim = 16,
                                .heads = 4,
                                .kv_heads = special ? 2 : 4,
                                .ff_dim = 24,
                                .context = 6,
                                .vocab = 9,
                                .qk_norm = special,
                                .tie_embeddings = special},
                               at::kCPU, kernels)
      .value();
}

std::unique_ptr<Model> MakePlain() { return MakeDecoder(false); }
std::unique_ptr<Model> MakeSpecial() { return MakeDecoder(true); }
std::unique_ptr<Model> MakeOfDeviceKernels() {
  static const testing_support::EmulatedBlockKernels kernels;
  return MakeDecoder(true, &kernels);
}
std::unique_ptr<Model> MakeBigram() { return std::make_unique<BigramModel>(5); }

INSTANTIATE_TEST_SUITE_P(Transformer, ModelSuite,
                         testing::Values(ModelMaker{MakePlain}, ModelMaker{MakeSpecial, 1},
                                         ModelMaker{MakeOfDeviceKernels, 1}));
INSTANTIATE_TEST_SUITE_P(Bigram, ModelSuite, testing::Values(ModelMaker{MakeBigram}));

}  // namespace
}  // namespace longhaul
