#include <fstream>

#include "tests/conformance/replica/replica_suite.h"
#include "tests/testing/language_run.h"
#include "tests/testing/temp_dir.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

std::unique_ptr<Replica> MakeTorchReplica(const TransformerShape& shape) {
  const std::string path = WrittenOnce("torch_replica_conformance", [](std::ostream& file) {
    for (int i = 0; i < 500; ++i) file << i * i << ' ';
  });
  return CreateReplica({.plan = {.batch = 2, .seed = 1, .eval_batches = 2},
                        .language = {.shape = shape, .sources = {{.source = {.path = path}}}}})
      .value();
}

const TransformerShape kPlain = {
    .layers = 2, .dim = 16, .heads = 2, .kv_heads = 2, .ff_dim = 32, .context = 16, .vocab = 256};

TransformerShape TiedGrouped() {
  TransformerShape shape = kPlain;
  shape.kv_heads = 1;
  shape.qk_norm = shape.tie_embeddings = true;
  return shape;
}

INSTANTIATE_TEST_SUITE_P(
    Torch, ReplicaSuite,
    testing::Values(ReplicaMaker{"plain", [] { return MakeTorchReplica(kPlain); }},
                    ReplicaMaker{"tied_grouped", [] { return MakeTorchReplica(TiedGrouped()); }}));

}  // namespace
}  // namespace longhaul
