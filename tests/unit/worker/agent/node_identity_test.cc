#include "worker/agent/node_identity.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<NodeIdentity> Identify(std::optional<int> nodes, std::optional<int> node,
                                      const Variables& variables = {},
                                      const std::string& host = "gpu-3") {
  return IdentifyNode(nodes, node, host, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// "NODES NODE", or the error.
std::string Text(const absl::StatusOr<NodeIdentity>& identity) {
  if (!identity.ok()) return std::string(identity.status().message());
  return std::to_string(identity->nodes) + " " +
         (identity->node.has_value() ? std::to_string(*identity->node) : "any");
}

TEST(NodeIdentityTest, FlagsComeFirst) {
  const Variables torchrun = {{"NNODES", "8"}, {"NODE_RANK", "7"}};
  EXPECT_EQ(Text(Identify(std::nullopt, std::nullopt)), "1 any");
  EXPECT_EQ(Text(Identify(4, std::nullopt)), "4 any");
  EXPECT_EQ(Text(Identify(4, 2, torchrun)), "4 2");
  EXPECT_EQ(Text(Identify(std::nullopt, std::nullopt, torchrun)), "8 7");
  EXPECT_EQ(Text(Identify(std::nullopt, 1, torchrun)), "8 1");
  EXPECT_EQ(Text(Identify(1, std::nullopt, torchrun)), "1 any") << "alone, whatever is around";
}

TEST(NodeIdentityTest, AStepOfSlurmHasItsNodes) {
  const Variables step = {
      {"SLURM_STEP_NUM_NODES", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NODEID", "2"}};
  EXPECT_EQ(Text(Identify(std::nullopt, std::nullopt, step)), "4 2");
  EXPECT_EQ(Text(Identify(8, std::nullopt, step)), "8 2") << "a pool of several allocations";
  EXPECT_EQ(Text(Identify(std::nullopt, 3, step)), "4 3");
  EXPECT_EQ(Text(Identify(1, std::nullopt, step)), "1 any");
  Variables torchrun = step;
  torchrun.merge(Variables{{"NNODES", "6"}, {"NODE_RANK", "5"}});
  EXPECT_EQ(Text(Identify(std::nullopt, std::nullopt, torchrun)), "6 5");
  // The script of a batch job, which runs on the first node alone.
  const Variables script = {{"SLURM_NNODES", "4"}, {"SLURM_NODEID", "0"}};
  EXPECT_EQ(Text(Identify(std::nullopt, std::nullopt, script)), "1 any");
  EXPECT_EQ(Text(Identify(4, std::nullopt, script)), "4 any");
}

TEST(NodeIdentityTest, ANodeOfSlurmHasOneWorker) {
  const Variables two_each = {
      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NODEID", "1"}};
  EXPECT_EQ(Text(Identify(std::nullopt, std::nullopt, two_each)),
            "srun starts 4 workers on 2 nodes: start one on each (--ntasks-per-node=1), and give "
            "--ranks for the ranks of a node");
  EXPECT_EQ(Text(Identify(2, 1, two_each)), "2 1") << "the user knows";
}

TEST(NodeIdentityTest, APodOfAStatefulSetHasItsOrdinal) {
  const Variables kubernetes = {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  EXPECT_EQ(Text(Identify(4, std::nullopt, kubernetes, "site-a-3")), "4 3");
  EXPECT_EQ(Text(Identify(4, 0, kubernetes, "site-a-3")), "4 0");
  EXPECT_EQ(Text(Identify(4, std::nullopt, kubernetes, "site-a-4")), "4 any");
  EXPECT_EQ(Text(Identify(4, std::nullopt, kubernetes, "site-a-7c9f-03")), "4 any");
  EXPECT_EQ(Text(Identify(4, std::nullopt, kubernetes, "pod")), "4 any");
  EXPECT_EQ(Text(Identify(4, std::nullopt, {}, "rack-3")), "4 any") << "no pod";
}

std::string Identified(std::optional<int> nodes, std::optional<int> node,
                       const Variables& variables = {}) {
  return Text(Identify(nodes, node, variables));
}

TEST(NodeIdentityTest, NamesImpossibleValuesAndWhoGaveThem) {
  EXPECT_EQ(Identified(2, 2),
            "--node: 2 is not within 0 to 1, since the pool has 2 nodes (--nodes)");
  EXPECT_EQ(Identified(2, std::nullopt, {{"NODE_RANK", "2"}}),
            "the environment's NODE_RANK: '2' is not within 0 to 1, since the pool has 2 nodes "
            "(--nodes)");
  EXPECT_EQ(Identified(std::nullopt, 4, {{"NNODES", "4"}}),
            "--node: 4 is not within 0 to 3, since the pool has 4 nodes (the environment's "
            "NNODES)");
  EXPECT_EQ(Identified(257, std::nullopt), "--nodes: 257 is not within 1 to 256");
  for (const char* wrong : {"1:4", "0", "257", "-1"}) {
    EXPECT_EQ(Identified(std::nullopt, std::nullopt, {{"NNODES", wrong}}),
              absl::StrCat("the environment's NNODES: '", wrong, "' is not within 1 to 256"));
  }
  EXPECT_EQ(Identified(2, std::nullopt, {{"NODE_RANK", "-1"}}),
            "the environment's NODE_RANK: '-1' is not within 0 to 1, since the pool has 2 nodes "
            "(--nodes)");
  EXPECT_EQ(Identified(std::nullopt, 1), "--node 1 needs --nodes");
}

}  // namespace
}  // namespace longhaul
